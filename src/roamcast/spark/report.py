"""What an audit comes to: read from its tables, as values for programs and as a page for people.

The tables are small here, whatever the journal: at most so many subjects, cells and slices, the ones that matter most
first. The page is one file without scripts, links or fonts from elsewhere.
"""

from html import escape
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from roamcast.spark.audit import UNKNOWN, examples
from roamcast.spark.files import file_system
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TOTALS, VERDICTS

SUBJECTS_MAX = 50
EXAMPLES_MAX = 20
POINTS_MAX = 1_000


class Line(msgspec.Struct, frozen=True):
    """The counts of one subject, place or time, or of all."""

    value: str
    x: float | None
    y: float | None
    at_us: int | None
    expected: int
    delivered: int
    missed: int
    unwanted: int
    duplicates: int
    latency_p50_us: int | None
    latency_p90_us: int | None
    latency_p99_us: int | None
    latency_max_us: int | None

    @property
    def rate(self) -> float | None:
        """The share of what was expected that arrived."""
        return (self.expected - self.missed) / self.expected if self.expected else None


class Example(msgspec.Struct, frozen=True):
    """A pair that went wrong."""

    kind: str
    event_id: str
    subscription_id: str
    subscriber: str
    subject: str
    published_us: int | None
    expected_us: int | None
    delivered_us: int | None
    x: float | None
    y: float | None


class Audit(msgspec.Struct, frozen=True):
    journal: str
    space: str
    until_us: int
    period_us: int
    total: Line
    delivery_rate: float | None
    subjects: tuple[Line, ...]
    places: tuple[Line, ...]
    times: tuple[Line, ...]
    examples: tuple[Example, ...]
    cut: tuple[str, ...] = ()
    """The first openings of the journal whose run was cut: they never said that it ended."""


NOTHING = Line("all", None, None, None, 0, 0, 0, 0, 0, None, None, None, None)


def read_audit(tables: Tables, space: str, settings: Settings) -> Audit:
    lines = [(row.pop("dimension"), Line(**row)) for row in rows_of(tables)]

    def of(dimension: str, key: Any, most: int) -> tuple[Line, ...]:
        return tuple(sorted((line for name, line in lines if name == dimension), key=key)[:most])

    total = next(iter(of("all", lambda line: line.value, 1)), NOTHING)
    return Audit(
        tables.journal,
        space,
        settings.until_us,
        settings.period_us,
        total,
        total.rate,
        of("subject", worst_first, SUBJECTS_MAX),
        of("place", lambda line: line.value, POINTS_MAX),
        of("time", lambda line: (line.at_us is not None, line.at_us or 0), POINTS_MAX),
        examples_of(tables),
        settings.cut,
    )


def worst_first(line: Line) -> tuple[int, int, str]:
    return -(line.missed + line.unwanted + line.duplicates), -line.expected, line.value


def rows_of(tables: Tables) -> list[dict[str, Any]]:
    """The lines of the audit, read without Spark: a row for each subject, cell and slice of time."""
    parts = []
    for path in tables.paths(TOTALS.name):
        files, within = file_system(path)
        parts.append(pq.read_table(within, filesystem=files, partitioning=None, schema=TOTALS.schema))
    rows: list[dict[str, Any]] = pa.concat_tables(parts).to_pylist()
    return rows


def examples_of(tables: Tables) -> tuple[Example, ...]:
    rows = examples(tables.read(VERDICTS), EXAMPLES_MAX).collect()
    found = ({name: row[name] for name in Example.__struct_fields__} for row in rows)
    return tuple(Example(**(row | {"subject": row["subject"] or UNKNOWN})) for row in found)


# The page.

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #d8dee4 }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
.figures { display: flex; flex-wrap: wrap; gap: .8rem } .figure { border: 1px solid #d8dee4; border-radius: 6px;
padding: .6rem 1rem; min-width: 7rem } .figure b { display: block; font-size: 1.4rem }
svg { width: 100%; height: auto; background: #f6f8fa; border: 1px solid #d8dee4; border-radius: 6px }
.quiet { color: #59636e }
"""
HEADINGS = ("expected", "delivered", "missed", "unwanted", "duplicates", "rate", "median", "99 %")


def page(audit: Audit) -> str:
    total = audit.total
    parts = [
        f"<h1>Audit of {escape(audit.journal)}</h1>",
        f"<p class=quiet>Until {audit.until_us / 1e6:,.3f} s, with a look at what lasts every "
        f"{audit.period_us / 1e3:g} ms; a {escape(audit.space)}.</p>",
        cut_off(audit.cut),
        figures(total),
        "<h2>By subject</h2>",
        table(audit.subjects, "subject"),
        "<h2>By place</h2>",
        "<p class=quiet>Where events were published. Green: everything arrived, red: nothing; the larger, the more "
        "was expected. Crosses: some of what was missed.</p>",
        place_map(audit.places, audit.examples),
        "<h2>By time</h2>",
        "<p class=quiet>What was expected of the events published in each slice of time, and in red what was "
        "missed.</p>",
        time_chart(audit.times),
        "<h2>Examples</h2>",
        example_table(audit.examples),
    ]
    title = escape(audit.journal)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Audit of {title}</title>'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</html>\n"


def cut_off(cut: tuple[str, ...]) -> str:
    return f"<p><strong>{escape(not_closed(cut))}</strong></p>" if cut else ""


def not_closed(cut: tuple[str, ...]) -> str:
    return (
        f"journal not closed: the run was cut, or still goes on ({'; '.join(cut)}); "
        "what it recorded last may be missing"
    )


def figures(line: Line) -> str:
    shown = (
        ("delivery rate", percent(line.rate)),
        ("expected", f"{line.expected:,}"),
        ("delivered", f"{line.delivered:,}"),
        ("missed", f"{line.missed:,}"),
        ("unwanted", f"{line.unwanted:,}"),
        ("duplicates", f"{line.duplicates:,}"),
        ("median latency", milliseconds(line.latency_p50_us)),
        ("90 % within", milliseconds(line.latency_p90_us)),
        ("99 % within", milliseconds(line.latency_p99_us)),
    )
    boxes = "".join(f"<div class=figure>{name}<b>{value}</b></div>" for name, value in shown)
    return f"<div class=figures>{boxes}</div>"


def table(lines: tuple[Line, ...], name: str) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in (name, *HEADINGS))
    rows = "".join(
        f"<tr><td>{escape(line.value)}</td>"
        + "".join(f"<td>{count:,}</td>" for count in counts(line))
        + f"<td>{percent(line.rate)}</td><td>{milliseconds(line.latency_p50_us)}</td>"
        f"<td>{milliseconds(line.latency_p99_us)}</td></tr>"
        for line in lines
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def counts(line: Line) -> tuple[int, ...]:
    return line.expected, line.delivered, line.missed, line.unwanted, line.duplicates


def percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1%}"


def milliseconds(us: int | None) -> str:
    return "–" if us is None else f"{us / 1_000:,.1f} ms"


def place_map(lines: tuple[Line, ...], examples: tuple[Example, ...]) -> str:
    placed = [(line, line.x, line.y) for line in lines if line.x is not None and line.y is not None]
    if not placed:
        return "<p>No event was published at a known position.</p>"
    xs, ys = [x for _, x, _ in placed], [y for _, _, y in placed]
    west, east, south, north = min(xs), max(xs), min(ys), max(ys)
    scale = 600 / max(east - west, north - south, 1e-9)
    width, height = (east - west) * scale + 100, (north - south) * scale + 100
    most = max(line.expected for line in lines) or 1

    def at(x: float, y: float) -> tuple[float, float]:
        return (x - west) * scale + 50, (north - y) * scale + 50

    dots = []
    for line, x, y in placed:
        across, down = at(x, y)
        radius = 4 + 16 * (line.expected / most) ** 0.5
        said = f"{line.expected:,} expected, {line.missed:,} missed, {percent(line.rate)} arrived"
        colour = f"hsl({120 * (1 if line.rate is None else line.rate):.0f} 65% 45%)"
        dots.append(
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity=".75">'
            f"<title>{said}</title></circle>"
        )
    for each in examples:
        if each.kind == "missed" and each.x is not None and each.y is not None:
            across, down = at(each.x, each.y)
            dots.append(f'<path d="M{across - 4:.1f} {down - 4:.1f}l8 8m0 -8l-8 8" stroke="#82071e" fill="none"/>')
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img">{"".join(dots)}</svg>'


def time_chart(lines: tuple[Line, ...]) -> str:
    timed = [(line, line.at_us) for line in lines if line.at_us is not None]
    if not timed:
        return "<p>No event was published.</p>"
    first, last = timed[0][1], timed[-1][1]
    step = min((b - a for (_, a), (_, b) in pairwise(timed)), default=1)
    slots = (last - first) // step + 1
    width, most = 800 / slots, max(line.expected for line, _ in timed) or 1
    bars = []
    for line, at_us in timed:
        left, tall, lost = (at_us - first) // step * width, 150 * line.expected / most, 150 * line.missed / most
        said = f"from {at_us / 1e6:,.3f} s: {line.expected:,} expected, {line.missed:,} missed"
        bars.append(
            f'<g><title>{said}</title><rect x="{left:.1f}" y="{160 - tall:.1f}" width="{width * 0.9:.1f}" '
            f'height="{tall:.1f}" fill="#4493f8"/><rect x="{left:.1f}" y="{160 - lost:.1f}" '
            f'width="{width * 0.9:.1f}" height="{lost:.1f}" fill="#cf222e"/></g>'
        )
    return f'<svg viewBox="0 0 800 165" role="img">{"".join(bars)}</svg>'


def example_table(examples: tuple[Example, ...]) -> str:
    if not examples:
        return "<p>Nothing was missed, unwanted or delivered twice.</p>"
    names = ("kind", "event", "subscription", "subscriber", "subject", "published", "expected", "delivered")
    rows = []
    for each in examples:
        times = (each.published_us, each.expected_us, each.delivered_us)
        texts = (each.kind, each.event_id, each.subscription_id, each.subscriber, each.subject)
        cells = [escape(text) for text in texts] + ["–" if us is None else f"{us / 1e6:,.3f} s" for us in times]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
