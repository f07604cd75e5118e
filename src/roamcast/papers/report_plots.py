"""Plots of the report: lines with their points, or bars where the values on the axis are words.

What the paper gives in numbers is drawn as hollow squares beside what was measured. Error bars go from the lowest to
the highest run.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from roamcast import figures
from roamcast.figures import INK, QUIET
from roamcast.papers.experiment import Findings, Plot

HEIGHT_IN = 2.8
COLOURS = ("#3b82c4", "#d1495b", "#2a9d6f", "#d98e04", "#8f6fc4", "#3fa7b5", "#8a94a0")
DASHES: tuple[Any, ...] = ("-", (0, (5, 3)), (0, (1, 2)), (0, (6, 2, 2, 2)))
"""So that one line is seen under another."""
POINTS_MAX = 10
"""A line with more is drawn without marks."""
LABEL_CHARS = 56
"""So many characters fit below the axis."""

Points: TypeAlias = list[tuple[float, float]]
Spread: TypeAlias = tuple[float, float, float]
"""Where on the axis, from, to."""
Line: TypeAlias = tuple[str, Points]
Draw: TypeAlias = Callable[[Any], None]


def drawn(plot: Plot, findings: Findings) -> str:
    findings = findings.where(**plot.where)
    values = findings.values(plot.x) if plot.x else []
    words = any(not isinstance(value, (int, float)) for value in values)
    draw = bars(plot, findings, values) if words else lines(plot, findings)
    if draw is None:
        return "<p class=quiet>nothing to plot</p>"
    return figures.drawn(f"{plot.y_title} against {plot.x_title}" if plot.x_title else plot.y_title, HEIGHT_IN, draw)


def lines_of(plot: Plot, findings: Findings) -> list[Line]:
    series: list[Any] = findings.values(plot.series) if plot.series else [None]
    lines = []
    for value in series:
        these = findings.where(**{plot.series: value}) if plot.series else findings
        name = "" if value is None else series_name(plot.series, value)
        for figure in plot.along:
            label = name if len(plot.along) == 1 else " ".join(each for each in (name, figure) if each)
            lines.append((label, finite(these.along(figure))))
        if not plot.along:
            xs = sorted(these.values(plot.x))
            lines.append((name, finite([(float(x), plot.y(these.where(**{plot.x: x}))) for x in xs])))
    return lines


def spreads_of(plot: Plot, findings: Findings) -> list[Spread]:
    """Of each point, what the runs alone come to, where there are several."""
    series: list[Any] = findings.values(plot.series) if plot.series else [None]
    spreads = []
    for value in series:
        these = findings.where(**{plot.series: value}) if plot.series else findings
        for figure in plot.along:
            spreads += spreads_along(these, figure)
        for x in these.values(plot.x) if not plot.along else ():
            spread = spread_of(plot, these.where(**{plot.x: x}))
            if spread is not None:
                spreads.append((float(x), *spread))
    return spreads


def spread_of(plot: Plot, here: Findings) -> tuple[float, float] | None:
    """The lowest and the highest run; None if there are not two."""
    runs = dict.fromkeys(row.run for row in here.rows)
    alone = [plot.y(Findings(row for row in here.rows if row.run == run)) for run in runs]
    found = [each for each in alone if math.isfinite(each)]
    return (min(found), max(found)) if len(found) > 1 else None


def spreads_along(findings: Findings, figure: str) -> list[Spread]:
    by_run = [dict(Findings([row]).along(figure)) for row in findings.rows]
    spreads = []
    for x in sorted({x for values in by_run for x in values}):
        found = [values[x] for values in by_run if x in values]
        if len(found) > 1:
            spreads.append((x, min(found), max(found)))
    return spreads


def series_name(parameter: str, value: Any) -> str:
    """Numbers and truths say nothing without what they are of."""
    match value:
        case bool():
            return parameter if value else f"no {parameter}"
        case int() | float():
            name, _, unit = parameter.rpartition("_")
            return f"{value:g} {unit}" if name else f"{parameter} {value:g}"
        case _:
            return str(value)


def finite(points: Points) -> Points:
    return [point for point in points if math.isfinite(point[1])]


def lines(plot: Plot, findings: Findings) -> Draw | None:
    found = [line for line in lines_of(plot, findings) if line[1]]
    if not found:
        return None

    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(found):
            marker = "o" if len(points) <= POINTS_MAX else ""
            style = {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, linewidth=1.6, label=name, **style)
        finish(axes, plot, spreads_of(plot, findings), [(float(x), y) for x, y in plot.paper])

    return draw


def bars(plot: Plot, findings: Findings, values: Sequence[Any]) -> Draw | None:
    heights = finite([(index, plot.y(findings.where(**{plot.x: value}))) for index, value in enumerate(values)])
    if not heights:
        return None
    found = ((index, spread_of(plot, findings.where(**{plot.x: value}))) for index, value in enumerate(values))
    spreads = [(float(index), *spread) for index, spread in found if spread is not None]
    paper = [(float(values.index(x)), y) for x, y in plot.paper if x in values]

    def draw(axes: Any) -> None:
        shown = axes.bar(*zip(*heights, strict=True), width=0.6, color=COLOURS[0])
        axes.bar_label(shown, fmt="{:.3g}", padding=5, fontsize=8)
        labels = [textwrap.fill(str(value), max(6, LABEL_CHARS // len(values))) for value in values]
        axes.set_xticks(range(len(values)), labels, fontsize=8)
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.12)
        finish(axes, plot, spreads, paper)

    return draw


def finish(axes: Any, plot: Plot, spreads: Sequence[Spread], paper: Points) -> None:
    """Error bars, the paper's points, scales and the legend."""
    from matplotlib.ticker import FuncFormatter

    for x, low, high in spreads:
        middle, half = (low + high) / 2, (high - low) / 2
        bar = axes.errorbar([x], [middle], yerr=[half], fmt="none", ecolor=QUIET, elinewidth=1, capsize=3)
        bar.lines[2][0].set_gid("spread")
    if paper:
        axes.plot(
            *zip(*paper, strict=True),
            "s",
            markersize=8,
            markerfacecolor="none",
            color=INK,
            label="paper",
            gid="paper",
        )
    axes.set_xlabel(plot.x_title)
    low, high = axes.dataLim.intervaly
    if plot.logarithmic and low > 0:
        axes.set_yscale("log")
        axes.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high) + 1e-9))
    elif axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    names = [name for name in axes.get_legend_handles_labels()[1] if name and not name.startswith("_")]
    if names:
        axes.figure.legend(loc="outside upper left", ncols=min(3, len(names)), frameon=False, fontsize=8)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
