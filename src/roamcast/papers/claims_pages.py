"""The claims on the pages of the papers (docs/papers/): a count by paper, and what each claim came to.

A page has its claims between two marks. Everything there is made from the rows of a run, so that no figure is typed
by hand. Each experiment says when it was run and by which preset; one that was not run this time keeps what the page
says of it, as long as its claims are the same. A claim whose experiment was never run says so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from roamcast.papers.experiment import Experiment
from roamcast.papers.report import MARKS, Judged, Section

BEGIN = "<!-- claims, written by `roamcast experiments report --pages` -->"
END = "<!-- end of claims -->"
NOT_RUN = "not run"
CELLS = re.compile(r"(?<!\\)\|")
EXPERIMENT = re.compile(r"\| \*\*.*`(?P<name>[\w-]+)`")


class Tally(Struct, frozen=True):
    """How many claims hold, of how many, by how they stand to a paper."""

    paper: str
    published: tuple[int, int]
    shape: tuple[int, int]
    own: tuple[int, int]

    @property
    def words(self) -> str:
        counts = zip(MARKS, (self.published, self.shape, self.own), strict=True)
        return ", ".join(f"{mark} {holding} of {of}" for mark, (holding, of) in counts)


def paper_of(experiment: str) -> str:
    """Experiments are named after their paper first: `steam-cost`."""
    return experiment.partition("-")[0].upper()


def tally_of(paper: str, claims: Iterable[tuple[str, bool]]) -> Tally:
    """`claims` are what each says of the paper, and whether it holds."""
    found = list(claims)
    counts = []
    for mark in MARKS:
        these = [holds for words, holds in found if words.startswith(mark)]
        counts.append((sum(these), len(these)))
    return Tally(paper, *counts)


def tallies(sections: Sequence[Section]) -> list[Tally]:
    """One for each paper, in the order of the experiments."""
    papers = dict.fromkeys(paper_of(section.name) for section in sections)
    return [
        tally_of(
            paper,
            ((each.paper, each.holds) for one in sections if paper_of(one.name) == paper for each in one.claims),
        )
        for paper in papers
    ]


class Dated(Struct, frozen=True):
    """What was run, by which preset and on which day."""

    section: Section
    preset: str
    day: str


def written(text: str, paper: str, experiments: Mapping[str, Experiment], run: Sequence[Dated]) -> str:
    """The page with its claims brought up to date; raises `ValueError` if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no '{BEGIN}' with '{END}' after it")
    return f"{before}{BEGIN}\n\n{block(paper, experiments, run, old)}\n{END}{after}"


def block(paper: str, experiments: Mapping[str, Experiment], run: Sequence[Dated], old: str = "") -> str:
    by_name = {each.section.name: each for each in run}
    shown = shown_in(old)
    lines: list[str] = []
    for experiment in experiments.values():
        if paper_of(experiment.name) != paper:
            continue
        dated = by_name.get(experiment.name)
        fresh = lines_of(experiment, dated)
        known = shown.get(experiment.name, [])
        lines += known if dated is None and same_claims(known, fresh) else fresh
    claims = [each for each in map(cells, lines) if each[1]]
    tally = tally_of(paper, ((each[1], each[3].startswith("holds")) for each in claims if each[2] != NOT_RUN))
    left = sum(each[2] == NOT_RUN for each in claims)
    rest = f" Of {left} more the experiments were not run." if left else ""
    table = ["| claim | the paper, and what we accept | measured | |", "|---|---|---|---|", *lines]
    return "\n".join([f"Claims that hold: **{tally.words}**.{rest}", "", *table, ""])


def shown_in(old: str) -> dict[str, list[str]]:
    """The lines of each experiment."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in old.splitlines():
        begins = EXPERIMENT.match(line)
        name = begins["name"] if begins else name
        if name and line.startswith("|"):
            found.setdefault(name, []).append(line)
    return found


def same_claims(known: Sequence[str], fresh: Sequence[str]) -> bool:
    return [cells(line)[:2] for line in known[1:]] == [cells(line)[:2] for line in fresh[1:]]


def cells(line: str) -> list[str]:
    return [each.strip() for each in CELLS.split(line)[1:-1]]


def lines_of(experiment: Experiment, dated: Dated | None) -> list[str]:
    """The experiment, then its claims."""
    judged = None if dated is None else dated.section.claims
    when = "" if dated is None else f"; {dated.section.runs} runs, {dated.preset} preset, {dated.day}"
    return [
        f"| **{cell(experiment.title)}**, {cell(experiment.section)}; `{experiment.name}`{when} | | | |",
        *(
            row(claim.what, claim.paper, None if judged is None else judged[index])
            for index, claim in enumerate(experiment.claims)
        ),
    ]


def row(what: str, paper: str, claim: Judged | None) -> str:
    if claim is None:
        return f"| {cell(what)} | {cell(paper)} | {NOT_RUN} | |"
    verdict = "holds" if claim.holds else "**differs**"
    reason = f": {cell(claim.reason)}" if claim.reason else ""
    return f"| {cell(what)} | {cell(paper)} | {cell(claim.measured)} | {verdict}{reason} |"


def cell(text: str) -> str:
    """Without what Markdown or a table would take for its own."""
    for sign in "\\|<*_":
        text = text.replace(sign, f"\\{sign}")
    return text


def write_pages(folder: Path, experiments: Mapping[str, Experiment], run: Sequence[Dated]) -> list[Path]:
    """Those that changed."""
    changed = []
    for paper in dict.fromkeys(paper_of(name) for name in experiments):
        page = folder / f"{paper}.md"
        before = page.read_text(encoding="utf-8")
        after = written(before, paper, experiments, run)
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page)
    return changed
