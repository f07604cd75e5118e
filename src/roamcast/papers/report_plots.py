"""Plots of the report, as SVG: lines with their points, or bars where the values on the axis are words.

What the paper gives in numbers is drawn as hollow squares beside what was measured. Error bars go from the lowest to
the highest run.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any, TypeAlias

from msgspec import Struct

from roamcast.papers.experiment import Findings, Plot

WIDTH, HEIGHT = 470, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 44
COLOURS = ("#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#0891b2", "#65a30d")
DASHES = ("none", "7 5", "2 3", "9 3 2 3")
"""So that one line is seen under another."""
LABEL_PX = 6.2
"""How wide a character of a label is, about."""
TICKS = 5

Points: TypeAlias = list[tuple[float, float]]
Spread: TypeAlias = tuple[float, float, float]
"""Where on the axis, from, to."""
Line: TypeAlias = tuple[str, Points]


class Axis(Struct, frozen=True):
    """From values to pixels."""

    low: float
    high: float
    from_px: float
    to_px: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        low, high, here = (math.log10(each) if self.logarithmic else each for each in (self.low, self.high, value))
        return self.from_px + (here - low) / ((high - low) or 1.0) * (self.to_px - self.from_px)

    def ticks(self) -> list[float]:
        """Round values in the range."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = round_up((self.high - self.low) / TICKS)
        first_tick = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first_tick, math.floor(self.high / step + 1e-9) + 1)]


def drawn(plot: Plot, findings: Findings) -> str:
    findings = findings.where(**plot.where)
    words = [value for value in findings.values(plot.x) if not isinstance(value, (int, float))] if plot.x else []
    if words:
        return bars(plot, findings)
    lines = [line for line in lines_of(plot, findings) if line[1]]
    if not lines:
        return "<p class=quiet>nothing to plot</p>"
    return line_chart(plot, lines, spreads_of(plot, findings))


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


def line_chart(plot: Plot, lines: Sequence[Line], spreads: Sequence[Spread]) -> str:
    paper = [(float(x), y) for x, y in plot.paper]
    ends = [(x, y) for x, low, high in spreads for y in (low, high)]
    points = [*(point for _, line in lines for point in line), *ends, *paper]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across = Axis(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, LEFT, WIDTH - RIGHT)
    up = vertical(ys, plot.logarithmic)
    shapes = [frame(plot, up), *(x_tick(across, tick) for tick in across.ticks())]
    for index, ((name, line), colour) in enumerate(zip(lines, cycle(len(lines)), strict=True)):
        dots = [(across.at(x), up.at(y)) for x, y in line]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        dashes = f"stroke-dasharray='{DASHES[index % len(DASHES)]}'"
        shapes.append(f"<polyline fill=none stroke={colour} stroke-width=2 {dashes} points='{way}'/>")
        if len(dots) <= 2 * TICKS:
            shapes += [
                f"<circle cx={x:.1f} cy={y:.1f} r=3 fill={colour}><title>{escape(name)} {value:g}</title></circle>"
                for (x, y), (_, value) in zip(dots, line, strict=True)
            ]
    shapes += [error_bar(across.at(x), up.at(low), up.at(high)) for x, low, high in spreads]
    shapes += [square(across.at(x), up.at(y)) for x, y in paper]
    return svg(plot, shapes, legend([name for name, _ in lines], bool(paper)))


def bars(plot: Plot, findings: Findings) -> str:
    values = findings.values(plot.x)
    heights = finite([(index, plot.y(findings.where(**{plot.x: value}))) for index, value in enumerate(values)])
    if not heights:
        return "<p class=quiet>nothing to plot</p>"
    paper = [(values.index(x), y) for x, y in plot.paper if x in values]
    spreads = {index: spread_of(plot, findings.where(**{plot.x: value})) for index, value in enumerate(values)}
    ends = [end for spread in spreads.values() if spread is not None for end in spread]
    up = vertical([*(y for _, y in [*heights, *paper]), *ends], plot.logarithmic)
    room = (WIDTH - LEFT - RIGHT) / len(values)
    shapes = [frame(plot, up)]
    for index, height in heights:
        left, top = LEFT + room * (index + 0.2), up.at(height)
        name = escape(str(values[int(index)]))
        shapes.append(
            f"<rect x={left:.1f} y={top:.1f} width={0.6 * room:.1f} height={HEIGHT - BOTTOM - top:.1f} "
            f"fill={COLOURS[0]}><title>{name} {height:g}</title></rect>"
            f"<text x={left + 0.3 * room:.1f} y={top - 4:.1f} text-anchor=middle>{height:.3g}</text>"
        )
        shapes += wrapped(str(values[int(index)]), left + 0.3 * room, room)
        spread = spreads[int(index)]
        if spread is not None:
            shapes.append(error_bar(left + 0.45 * room, up.at(spread[0]), up.at(spread[1])))
    shapes += [square(LEFT + room * (index + 0.5), up.at(y)) for index, y in paper]
    return svg(plot, shapes, legend([], bool(paper)))


def wrapped(words: str, middle: float, room: float) -> list[str]:
    """A label in as many lines as it takes."""
    lines: list[str] = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) * LABEL_PX > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return [
        f"<text x={middle:.1f} y={HEIGHT - BOTTOM + 14 + 12 * number:.1f} text-anchor=middle>{escape(line)}</text>"
        for number, line in enumerate(lines)
    ]


# Axes and the rest.


def vertical(values: Sequence[float], logarithmic: bool) -> Axis:
    if logarithmic and min(values) > 0:
        low, high = (10.0 ** end(math.log10(of)) for end, of in ((math.floor, min(values)), (math.ceil, max(values))))
        return Axis(low, high if high > low else 10 * low, HEIGHT - BOTTOM, TOP, True)
    low, high = min(0.0, *values), max(values)
    step = round_up((high - low) / TICKS) if high > low else 1.0
    return Axis(low, max(step * math.ceil(high / step - 1e-9), low + step), HEIGHT - BOTTOM, TOP)


def round_up(value: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= value * (1 - 1e-9))


def frame(plot: Plot, up: Axis) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    lines = "".join(
        f"<path d='M{LEFT} {up.at(tick):.1f}H{right}' stroke=currentColor opacity=.15 />"
        f"<text x={LEFT - 6} y={up.at(tick) + 4:.1f} text-anchor=end>{number(tick)}</text>"
        for tick in up.ticks()
    )
    return (
        f"{lines}<path d='M{LEFT} {TOP}V{bottom}H{right}' fill=none stroke=currentColor opacity=.5 />"
        f"<text x={(LEFT + right) / 2:.1f} y={bottom + 34} text-anchor=middle>{escape(plot.x_title)}</text>"
    )


def x_tick(across: Axis, tick: float) -> str:
    x = across.at(tick)
    return f"<text x={x:.1f} y={HEIGHT - BOTTOM + 15} text-anchor=middle>{number(tick)}</text>"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def error_bar(x: float, low: float, high: float) -> str:
    return (
        f"<path d='M{x - 3:.1f} {low:.1f}h6M{x:.1f} {low:.1f}V{high:.1f}M{x - 3:.1f} {high:.1f}h6' "
        "stroke=currentColor opacity=.6 />"
    )


def square(x: float, y: float) -> str:
    return (
        f"<rect x={x - 5:.1f} y={y - 5:.1f} width=10 height=10 fill=none stroke=currentColor stroke-width=1.5>"
        "<title>paper</title></rect>"
    )


def cycle(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def legend(names: Sequence[str], paper: bool) -> str:
    shown, x = [], float(LEFT)
    for name, colour in zip(names, cycle(len(names)), strict=True):
        if name:
            shown.append(f"<text x={x:.0f} y=16 style='fill:{colour}'>{escape(name)}</text>")
            x += LABEL_PX * len(name) + 14
    if paper:
        shown.append(square(x + 5, 12) + f"<text x={x + 14:.0f} y=16>paper</text>")
    return "".join(shown)


def svg(plot: Plot, shapes: Sequence[str], above: str) -> str:
    title = escape(f"{plot.y_title} against {plot.x_title}" if plot.x_title else plot.y_title, quote=True)
    return (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width={WIDTH} height={HEIGHT} role=img aria-label='{title}'>"
        f"{above}{''.join(shapes)}</svg>"
    )
