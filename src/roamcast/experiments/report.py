"""The report: for each experiment what the paper says, what was measured, and whether the two agree (P4).

One page without anything from elsewhere: it opens offline and can be sent in a mail. Plots are drawn as SVG.
"""

import math
from html import escape
from typing import Any

from msgspec import Struct

from roamcast.experiments.experiment import Claim, Experiment, Findings, Plot, Row, Verdict

WIDTH, HEIGHT, MARGIN = 460, 260, 46
COLOURS = ("#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#0891b2")
STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
.holds { color: #059669; } .differs { color: #dc2626; } .quiet { opacity: .7; }
svg text { fill: currentColor; font-size: 11px; }
figure { display: inline-block; margin: .5rem 1rem .5rem 0; } figcaption { font-size: .9rem; }
"""


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


def page(found: list[tuple[Experiment, list[Row]]], preset: str) -> str:
    sections = [(experiment, rows, section_of(experiment, rows)) for experiment, rows in found]
    claims = [claim for _, _, section in sections for claim in section.claims]
    holding = sum(claim.holds for claim in claims)
    body = "".join(part(experiment, rows, section) for experiment, rows, section in sections)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>roamcast: the papers' experiments</title><style>{STYLE}</style>"
        "<h1>The papers' experiments</h1>"
        f"<p>{holding} of {len(claims)} claims hold, from {sum(section.runs for _, _, section in sections):,} runs "
        f"of the {escape(preset)} preset.</p>{body}</html>"
    )


def part(experiment: Experiment, rows: list[Row], section: Section) -> str:
    findings = Findings(rows)
    lines = "".join(claim_line(claim) for claim in section.claims)
    plots = "".join(
        f"<figure>{svg(plot, findings)}<figcaption>{escape(plot.y_title)}</figcaption></figure>"
        for plot in experiment.plots
    )
    failures = "".join(
        f"<li>seed {row.seed}, {escape(str(row.parameters))}: <code>{escape(row.error)}</code></li>"
        for row in rows
        if row.error
    )
    return (
        f"<h2 id={section.name}>{escape(section.title)}</h2>"
        f"<p class=quiet>{escape(section.requirement)}, section {escape(section.section)}; {section.runs} runs, "
        f"{section.cpu_s:.0f} s of CPU. {escape(experiment.about)}</p>"
        f"<table><tr><th>what<th>paper<th>measured<th></tr>{lines}</table>{plots}"
        + (f"<p>Failed twice:</p><ul>{failures}</ul>" if failures else "")
    )


def claim_line(claim: Judged) -> str:
    mark = "<span class=holds>holds</span>" if claim.holds else "<span class=differs>differs</span>"
    reason = f"<br><span class=quiet>{escape(claim.reason)}</span>" if claim.reason else ""
    return f"<tr><td>{escape(claim.what)}<td>{escape(claim.paper)}<td>{escape(claim.measured)}<td>{mark}{reason}</tr>"


# Plots.


def svg(plot: Plot, findings: Findings) -> str:
    lines = lines_of(plot, findings)
    points = [point for _, line in lines for point in line]
    if not points:
        return "<p class=quiet>nothing to plot</p>"
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1e-9)
    y_low, y_high = min(0.0, *ys), nice_top(max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + (x - x_low) / (x_high - x_low) * (WIDTH - MARGIN - 90)
        return across, HEIGHT - MARGIN - (y - y_low) / (y_high - y_low) * (HEIGHT - 2 * MARGIN)

    drawn = [axes(plot, (x_low, x_high), (y_low, y_high), place)]
    for index, (name, line) in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        dots = [place(x, y) for x, y in line]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        drawn.append(f"<polyline fill=none stroke={colour} stroke-width=2 points='{way}'/>")
        drawn += [
            f"<circle cx={x:.1f} cy={y:.1f} r=3 fill={colour}><title>{escape(name)}</title></circle>" for x, y in dots
        ]
        if name:
            drawn.append(f"<text x={WIDTH - 84} y={MARGIN + 14 * index} style='fill:{colour}'>{escape(name)}</text>")
    title = escape(f"{plot.y_title} against {plot.x_title}")
    return f"<svg width={WIDTH} height={HEIGHT} role=img aria-label='{title}'>{''.join(drawn)}</svg>"


def lines_of(plot: Plot, findings: Findings) -> list[tuple[str, list[tuple[float, float]]]]:
    series: list[Any] = findings.values(plot.series) if plot.series else [None]
    lines = []
    for value in series:
        these = findings.where(**{plot.series: value}) if plot.series else findings
        points = [(float(x), plot.y(these.where(**{plot.x: x}))) for x in sorted(these.values(plot.x))]
        lines.append(("" if value is None else str(value), [point for point in points if math.isfinite(point[1])]))
    return lines


def nice_top(value: float) -> float:
    """A round number a little above, so that the axis ends on something readable."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0) if step * power >= value)


def axes(plot: Plot, x_ends: tuple[float, float], y_ends: tuple[float, float], place: Any) -> str:
    left, bottom = place(x_ends[0], y_ends[0])
    right, top = place(x_ends[1], y_ends[1])
    return (
        f"<path d='M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}' fill=none stroke=currentColor opacity=.5 />"
        f"<text x={left:.1f} y={bottom + 14:.1f}>{x_ends[0]:g}</text>"
        f"<text x={right:.1f} y={bottom + 14:.1f} text-anchor=end>{x_ends[1]:g}</text>"
        f"<text x={(left + right) / 2:.1f} y={bottom + 28:.1f} text-anchor=middle>{escape(plot.x_title)}</text>"
        f"<text x={left - 6:.1f} y={bottom:.1f} text-anchor=end>{y_ends[0]:g}</text>"
        f"<text x={left - 6:.1f} y={top + 4:.1f} text-anchor=end>{y_ends[1]:g}</text>"
    )
