"""The claims on the pages of the papers (docs/papers/): a count by paper, and what each claim came to.

A page has its claims between two marks. Everything there is made from the rows of a run, so that no figure is typed
by hand. A claim whose experiment was not run says so.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from roamcast.papers.experiment import Experiment
from roamcast.papers.report import MARKS, Judged, Section

BEGIN = "<!-- claims, written by `roamcast experiments report --pages` -->"
END = "<!-- end of claims -->"
NOT_RUN = "not run"


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


def tally_of(paper: str, claims: Sequence[Judged]) -> Tally:
    counts = []
    for mark in MARKS:
        these = [claim for claim in claims if claim.paper.startswith(mark)]
        counts.append((sum(claim.holds for claim in these), len(these)))
    return Tally(paper, *counts)


def tallies(sections: Sequence[Section]) -> list[Tally]:
    """One for each paper, in the order of the experiments."""
    papers = dict.fromkeys(paper_of(section.name) for section in sections)
    return [
        tally_of(
            paper, [claim for section in sections if paper_of(section.name) == paper for claim in section.claims]
        )
        for paper in papers
    ]


def written(text: str, paper: str, experiments: Mapping[str, Experiment], sections: Sequence[Section]) -> str:
    """The page with its claims brought up to date; raises `ValueError` if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no '{BEGIN}' with '{END}' after it")
    return f"{before}{BEGIN}\n\n{block(paper, experiments, sections)}\n{END}{after}"


def block(paper: str, experiments: Mapping[str, Experiment], sections: Sequence[Section]) -> str:
    by_name = {section.name: section for section in sections}
    ours = [each for each in experiments.values() if paper_of(each.name) == paper]
    found = [by_name[each.name] for each in ours if each.name in by_name]
    tally = tally_of(paper, [claim for section in found for claim in section.claims])
    runs = sum(section.runs for section in found)
    left = sum(len(each.claims) for each in ours if each.name not in by_name)
    rest = f" Of {left} more the experiments were not run." if left else ""
    lines = [f"Claims that hold: **{tally.words}**; {runs:,} runs.{rest}", ""]
    lines += ["| claim | the paper, and what we accept | measured | |", "|---|---|---|---|"]
    for experiment in ours:
        lines.append(f"| **{cell(experiment.title)}**, {cell(experiment.section)}; `{experiment.name}` | | | |")
        section = by_name.get(experiment.name)
        judged = None if section is None else section.claims
        for index, claim in enumerate(experiment.claims):
            lines.append(row(claim.what, claim.paper, None if judged is None else judged[index]))
    return "\n".join([*lines, ""])


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


def write_pages(folder: Path, experiments: Mapping[str, Experiment], sections: Sequence[Section]) -> list[Path]:
    """Those that changed."""
    changed = []
    for paper in dict.fromkeys(paper_of(name) for name in experiments):
        page = folder / f"{paper}.md"
        before = page.read_text(encoding="utf-8")
        after = written(before, paper, experiments, sections)
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page)
    return changed
