"""The report: for each experiment what the paper says, what was measured, and whether the two agree (P4).

One page without anything from elsewhere: it opens offline and can be sent in a mail. Plots are drawn as SVG.
"""

from collections.abc import Sequence
from html import escape

from msgspec import Struct

from roamcast.figures import page_style
from roamcast.papers.experiment import Claim, Experiment, Findings, Row, Verdict
from roamcast.papers.report_plots import drawn

STYLE = """
section { border-top: 2px solid var(--grid); margin-top: 2rem }
.plots { display: grid; gap: .8rem; margin-top: .8rem;
         grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)) }
figcaption { font-weight: 600 } th, td { text-align: left; vertical-align: top; white-space: normal }
.claims td:nth-child(1) { width: 34% } .claims td:nth-child(2) { width: 26% } .claims td:nth-child(4) { width: 18% }
.holds { color: var(--good) } .differs { color: var(--bad); font-weight: 600 }
@media (max-width: 40rem) {
  .claims, .claims tbody, .claims tr, .claims td, .claims td:nth-child(n) {
    display: block; width: auto; border: 0; padding: .1rem 0
  }
  .claims tr { border-bottom: 1px solid var(--grid); padding: .4rem 0 } .claims th { display: none }
  .claims td:nth-child(2)::before { content: "paper: "; color: var(--quiet) }
  .claims td:nth-child(3)::before { content: "measured: "; color: var(--quiet) }
}
"""


MARKS = ("as published", "shape", "our reading")
"""How a claim stands to the paper, in its first words."""


class Judged(Struct, frozen=True):
    what: str
    paper: str
    measured: str
    holds: bool
    reason: str = ""


class Section(Struct, frozen=True):
    """One experiment in the report, also as JSON."""

    name: str
    requirement: str
    title: str
    section: str
    runs: int
    failed: int
    cpu_s: float
    claims: tuple[Judged, ...]


def judged(claim: Claim, findings: Findings) -> Judged:
    try:
        verdict = claim.judge(findings)
    except (ArithmeticError, ValueError, LookupError):
        # Nothing to judge by: every run it needs has failed.
        verdict = Verdict("no data", False)
    return Judged(claim.what, claim.paper, verdict.measured, verdict.holds, "" if verdict.holds else claim.reason)


def section_of(experiment: Experiment, rows: list[Row]) -> Section:
    findings = Findings(rows)
    return Section(
        experiment.name,
        experiment.requirement,
        experiment.title,
        experiment.section,
        len(rows),
        sum(bool(row.error) for row in rows),
        sum(row.cpu_s for row in rows),
        tuple(judged(claim, findings) for claim in experiment.claims),
    )


def page(found: list[tuple[Experiment, list[Row]]], preset: str, lacking: Sequence[Experiment] = ()) -> str:
    """`lacking` are the experiments that were not run: they are named, with the reason where there is one."""
    sections = [(experiment, rows, section_of(experiment, rows)) for experiment, rows in found]
    claims = [claim for _, _, section in sections for claim in section.claims]
    holding = sum(claim.holds for claim in claims)
    failed = sum(section.failed for _, _, section in sections)
    body = "".join(part(experiment, rows, section) for experiment, rows, section in sections)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<meta name=color-scheme content='light dark'>"
        f"<title>roamcast: the papers' experiments</title><style>{page_style()}{STYLE}</style>"
        "<h1>The papers' experiments</h1>"
        f"<p>{by_mark(claims)}</p>"
        f"<p>{holding} of {len(claims)} claims hold, from {sum(section.runs for _, _, section in sections):,} runs "
        f"of the {escape(preset)} preset{f', of which {failed} failed' if failed else ''}.</p>"
        f"{overview([section for _, _, section in sections])}{missing_list(lacking)}{body}</html>"
    )


def by_mark(claims: Sequence[Judged]) -> str:
    """How many hold of those that say what the paper does, of those that have its shape, and of our own."""
    counts = []
    for mark in MARKS:
        these = [claim for claim in claims if claim.paper.startswith(mark)]
        counts += [f"{mark}: {sum(claim.holds for claim in these)} of {len(these)}"] if these else []
    return "; ".join(counts)


def overview(sections: Sequence[Section]) -> str:
    lines = "".join(
        f"<tr><td><a href='#{section.name}'>{escape(section.title)}</a><td>{escape(section.requirement)}"
        f"<td>{escape(section.section)}<td>{tally(section)}</tr>"
        for section in sections
    )
    return f"<div class=wide><table><tr><th>experiment<th>requirement<th>section<th>claims</tr>{lines}</table></div>"


def tally(section: Section) -> str:
    holding = sum(claim.holds for claim in section.claims)
    kind = "holds" if holding == len(section.claims) else "differs"
    return f"<span class={kind}>{holding} of {len(section.claims)} hold</span>"


def missing_list(lacking: Sequence[Experiment]) -> str:
    lines = "".join(
        f"<li>{escape(each.title)} (<code>{each.name}</code>){escape(f': {each.absent()}' if each.absent() else '')}"
        for each in lacking
    )
    return f"<p>Not run:</p><ul>{lines}</ul>" if lines else ""


def part(experiment: Experiment, rows: list[Row], section: Section) -> str:
    findings = Findings(rows)
    lines = "".join(claim_line(claim) for claim in section.claims)
    plots = "".join(
        f"<figure><figcaption>{escape(plot.y_title)}</figcaption>{drawn(plot, findings)}</figure>"
        for plot in experiment.plots
    )
    failures = "".join(
        f"<li>seed {row.seed}, {escape(str(row.parameters))}: <code>{escape(row.error)}</code></li>"
        for row in rows
        if row.error
    )
    return (
        f"<section><h2 id={section.name}>{escape(section.title)}</h2>"
        f"<p class=quiet>{escape(section.requirement)}, section {escape(section.section)}; "
        f"<code>{section.name}</code>, {section.runs} runs, {section.cpu_s:.0f} s of CPU.</p>"
        + (f"<p>{escape(experiment.about)}</p>" if experiment.about else "")
        + f"<table class=claims><tr><th>what<th>paper<th>measured<th></tr>{lines}</table>"
        f"<div class=plots>{plots}</div>"
        + (f"<p>Failed twice:</p><ul>{failures}</ul>" if failures else "")
        + "</section>"
    )


def claim_line(claim: Judged) -> str:
    mark = "<span class=holds>holds</span>" if claim.holds else "<span class=differs>differs</span>"
    reason = f"<br><span class=quiet>{escape(claim.reason)}</span>" if claim.reason else ""
    return f"<tr><td>{escape(claim.what)}<td>{escape(claim.paper)}<td>{escape(claim.measured)}<td>{mark}{reason}</tr>"
