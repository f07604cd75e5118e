"""The pictures of the audit page (`roamcast/figures.py` says how they look)."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import matplotlib.dates as calendar
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from roamcast.figures import INK, PAPER, QUIET, WIDTH_IN, drawn
from roamcast.spark.report import Audit, Line
from roamcast.spark.tables import BadPipeline
from roamcast.spark.totals import DELAY_STEPS
from roamcast.spark.what_if import Difference

EXPECTED_COLOUR, MISSED_COLOUR, WAYS_COLOUR = "#3b82c4", "#d1495b", "#8a94a0"
SHARES = LinearSegmentedColormap.from_list("arrived", [MISSED_COLOUR, "#edae49", EXPECTED_COLOUR])
"""Colours that are told apart by those who cannot see red and green, and seen on light and on dark."""
EPOCH_US = 946_684_800_000_000
"""Times after the year 2000 are of a calendar; others count from when a simulation began."""
METRES_PER_DEGREE = 111_195.0
CHANGES_MAX, NAME_MAX = 12, 24


def zone_of(audit: Audit, name: str | None) -> tzinfo:
    """The zone of the data: as named, else by the longitude of what was published, else UTC."""
    if name is not None:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadPipeline(f"--zone is '{name}'; give the name of a time zone, as Europe/Zurich") from None
    places = [line.x for line in audit.places if line.x is not None]
    if audit.space != "earth" or not places:
        return UTC
    return timezone(timedelta(hours=round(sum(places) / len(places) / 15)))


def place_map(audit: Audit, ways: Any, streets: Sequence[Any]) -> str | None:
    """Where events were published and how much of them arrived, over streets, or the ways that hosts took."""
    placed = [line for line in audit.places if line.x is not None and line.y is not None]
    if not placed:
        return None
    earth = audit.space == "earth"
    x, y = (np.array([getattr(line, name) for line in placed]) for name in ("x", "y"))
    most = max(line.expected for line in placed) or 1
    missed = [(each.x, each.y) for each in audit.examples if each.kind == "missed" and each.x is not None]
    box = padded(x, y, earth)
    stretch = 1 / max(math.cos(math.radians(float(y.mean()))), 0.01) if earth else 1.0
    height_in = min(max(WIDTH_IN * 0.6 * (box[3] - box[2]) * stretch / (box[1] - box[0]) + 0.7, 2.2), 6.0)

    def draw(axes: Any) -> None:
        axes.set_aspect(stretch, adjustable="box")
        axes.add_collection(LineCollection(streets, colors=WAYS_COLOUR, linewidths=0.7, alpha=0.8))
        if not streets:
            axes.add_collection(LineCollection(ways, colors=WAYS_COLOUR, linewidths=0.4, alpha=0.35, rasterized=True))
        shares = [math.nan if line.rate is None else line.rate for line in placed]
        sizes = [8 + 130 * line.expected / most for line in placed]
        # Of shares that are all high the differences are what matters.
        least = min(0.9, math.floor(10 * min((each for each in shares if not math.isnan(each)), default=0.0)) / 10)
        dots = axes.scatter(x, y, sizes, shares, cmap=SHARES, vmin=least, vmax=1, edgecolors=INK, linewidths=0.5)
        if missed:
            axes.scatter(*zip(*missed, strict=True), s=14, marker="x", color=INK, linewidths=0.8)
        axes.set_xlim(box[0], box[1])
        axes.set_ylim(box[2], box[3])
        axes.set_xlabel("longitude, °" if earth else "east, m")
        axes.set_ylabel("latitude, °" if earth else "north, m")
        axes.ticklabel_format(useOffset=False)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5))
        bar = axes.figure.colorbar(dots, ax=axes, shrink=0.7, format=PercentFormatter(1), pad=0.02)
        bar.set_label("arrived")
        bar.outline.set_edgecolor(QUIET)
        scale_bar(axes, box, METRES_PER_DEGREE / stretch if earth else 1.0)

    return drawn("map of where events were published", height_in, draw)


def padded(x: Any, y: Any, earth: bool) -> tuple[float, float, float, float]:
    """The box to show: all places, and a little around them."""
    least = 0.001 if earth else 50.0
    spare = max(float(np.ptp(x)), float(np.ptp(y)), least) * 0.08
    return float(x.min()) - spare, float(x.max()) + spare, float(y.min()) - spare, float(y.max()) + spare


def scale_bar(axes: Any, box: tuple[float, ...], metres_per_unit: float) -> None:
    """A bar of one, two or five times a power of ten metres, at most a quarter of the width."""
    quarter_m = (box[1] - box[0]) * metres_per_unit / 4
    power = 10.0 ** math.floor(math.log10(quarter_m))
    length_m = max(step * power for step in (1, 2, 5) if step * power <= quarter_m)
    share = length_m / metres_per_unit / (box[1] - box[0])
    axes.plot([0.04, 0.04 + share], [0.05, 0.05], color=INK, linewidth=2, transform=axes.transAxes)
    said = f"{length_m / 1_000:g} km" if length_m >= 1_000 else f"{length_m:g} m"
    behind = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.7, "pad": 1.0}
    axes.text(0.04 + share / 2, 0.07, said, ha="center", va="bottom", transform=axes.transAxes, bbox=behind)


def time_chart(lines: Sequence[Line], zone: tzinfo) -> str | None:
    """What was expected of the events published in each slice of time, and what of it was missed."""
    timed = [(line.at_us, line.expected, line.missed) for line in lines if line.at_us is not None]
    if not timed:
        return None
    at_us, expected, missed = (np.array(column) for column in zip(*timed, strict=True))
    step_us = int(np.diff(at_us).min()) if len(at_us) > 1 else 1_000_000
    dated = int(at_us[0]) > EPOCH_US

    def draw(axes: Any) -> None:
        if dated:
            where: Any = [datetime.fromtimestamp(each / 1e6, zone) for each in at_us]
            width: Any = timedelta(microseconds=step_us * 0.9)
            dates: Any = calendar  # it has no types
            locator = dates.AutoDateLocator(tz=zone, maxticks=7)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))
            axes.set_xlabel(f"time of day, {zone}")
        else:
            where, width = at_us / 1e6, step_us * 0.9 / 1e6
            axes.set_xlabel("seconds since the run began")
        axes.bar(where, expected, width, align="edge", color=EXPECTED_COLOUR, label="expected")
        axes.bar(where, missed, width, align="edge", color=MISSED_COLOUR, label="missed")
        axes.set_ylabel("deliveries")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)

    return drawn("deliveries by time", 2.4, draw)


def delay_chart(lines: Sequence[Line]) -> str | None:
    """The share of deliveries that were made within a delay."""
    counted = sorted((line.at_us, line.delivered) for line in lines if line.at_us is not None)
    if not counted:
        return None
    delay_us, count = (np.array(column, float) for column in zip(*counted, strict=True))
    share = np.cumsum(count) / count.sum()
    # A line has the least delay of a step; all that it counts are within the step's end.
    within_us = np.where(delay_us < 1, 1, delay_us * 10 ** (1 / DELAY_STEPS))

    def draw(axes: Any) -> None:
        axes.step(within_us, share, where="post", color=EXPECTED_COLOUR, linewidth=1.8)
        axes.set_xscale("log")
        axes.set_xlim(1, max(float(within_us[-1]) * 2, 1_000))
        axes.set_ylim(0, 1.03)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("delay at most")
        axes.set_ylabel("of deliveries")

    return drawn("deliveries by delay", 2.4, draw)


def change_chart(name: str, lines: Sequence[Difference]) -> str | None:
    """What the lines that differ most gain, to the right, and lose, to the left."""
    some = [line for line in lines if line.gained or line.lost][:CHANGES_MAX][::-1]
    if not some:
        return None
    names = [line.value if len(line.value) <= NAME_MAX else f"{line.value[: NAME_MAX - 1]}…" for line in some]

    def draw(axes: Any) -> None:
        rows = range(len(some))
        axes.barh(rows, [line.gained for line in some], color=EXPECTED_COLOUR, label="gained")
        axes.barh(rows, [-line.lost for line in some], color=MISSED_COLOUR, label="lost")
        axes.set_yticks(rows, names)
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
        axes.set_xlabel("deliveries")
        axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)

    return drawn(name, 1.2 + 0.22 * len(some), draw)


def short(us: float) -> str:
    return f"{us:g} µs" if us < 1e3 else f"{us / 1e3:g} ms" if us < 1e6 else f"{us / 1e6:g} s"


def read_streets(file: Path | None) -> list[Any]:
    """The lines of a GeoJSON file, whatever they are called in it."""
    if file is None:
        return []
    try:
        return [np.array(line, float)[:, :2] for line in lines_in(json.loads(file.read_text()))]
    except (OSError, ValueError, TypeError, KeyError, IndexError) as problem:
        raise BadPipeline(f"{file}: not a GeoJSON file with lines ({problem})") from problem


def lines_in(part: dict[str, Any]) -> list[Any]:
    match part["type"]:
        case "FeatureCollection":
            return [line for each in part["features"] for line in lines_in(each)]
        case "Feature":
            return lines_in(part["geometry"]) if part["geometry"] else []
        case "GeometryCollection":
            return [line for each in part["geometries"] for line in lines_in(each)]
        case "LineString":
            return [part["coordinates"]]
        case "MultiLineString" | "Polygon":
            return list(part["coordinates"])
        case "MultiPolygon":
            return [ring for polygon in part["coordinates"] for ring in polygon]
        case _:
            return []
