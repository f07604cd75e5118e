"""The audit and what-if as pages for people: one file each, without scripts, links or fonts from elsewhere."""

from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from roamcast.figures import page_style
from roamcast.spark.report import Audit, Line, duration, milliseconds, not_closed, percent
from roamcast.spark.what_if import Difference, WhatIf
from roamcast.spark.wishes import Wishes

NOTHING = "–"


def rendered(name: str, **values: Any) -> str:
    """A template of `pages/`."""
    from jinja2 import Environment, FunctionLoader  # of the extra `roamcast[spark]`, as matplotlib is

    pages = files("roamcast.spark").joinpath("pages")
    loader = FunctionLoader(lambda each: pages.joinpath(each).read_text())
    return Environment(autoescape=True, loader=loader).get_template(name).render(style=page_style(), **values)


def what_if_page(found: WhatIf, wishes: Wishes) -> str:
    """Who gains and who loses with these wishes."""
    from roamcast.spark import charts

    rules = [
        (kind, msgspec.json.encode(rule).decode())
        for kind in wishes.__struct_fields__
        for rule in getattr(wishes, kind)
    ]
    parts = (("subject", found.subjects), ("client", found.clients))
    return rendered(
        "what_if.html",
        found=found,
        rules=rules,
        figures=[(name, f"{getattr(found.total, name):,}") for name in COUNTS],
        parts=[
            (name, charts.change_chart(f"gained and lost by {name}", lines), [difference_row(line) for line in lines])
            for name, lines in parts
        ],
    )


COUNTS = ("before", "after", "gained", "lost")
FENCE_COUNTS = ("expected", "told", "missing", "extra", "duplicates")


def difference_row(line: Difference) -> tuple[str, ...]:
    return (line.value, *(f"{getattr(line, name):,}" for name in COUNTS))


def page(audit: Audit, ways: Any = (), streets: Path | None = None, zone: str | None = None) -> str:
    """`ways`: stretches that hosts went, drawn where no file has streets. `zone`: of the times that are shown."""
    from roamcast.spark import charts

    lines = charts.read_streets(streets)
    of_data = charts.zone_of(audit, zone)
    pictures = (
        (
            charts.place_map(audit, ways, lines),
            "Where events were published. The larger a dot, the more was expected of them; crosses: some that were "
            "missed. " + ("Grey: streets." if lines else "Grey: ways that hosts took."),
        ),
        (
            charts.time_chart(audit.times, of_data),
            "Deliveries expected of the events published in each slice of time.",
        ),
        (charts.delay_chart(audit.delays), "First deliveries made within a delay."),
    )

    def moment(us: int) -> datetime | None:
        return datetime.fromtimestamp(us / 1e6, of_data) if us > charts.EPOCH_US else None

    first, last = moment(audit.first_us), moment(audit.until_us)
    dated = first is None or last is None or first.date() != last.date()

    return rendered(
        "audit.html",
        audit=audit,
        not_closed=not_closed(audit.cut),
        moment=lambda us: time_text(us, moment(us), dated=True),
        ms=duration,
        figures=figures(audit),
        pictures=pictures,
        subjects=[subject_row(line) for line in audit.subjects],
        fences={
            "lines": [
                (each.fence, *(f"{getattr(each, name):,}" for name in FENCE_COUNTS)) for each in audit.fences.lines
            ],
            "examples": [
                (
                    each.kind,
                    each.fence,
                    each.transition,
                    each.host,
                    time_text(each.at_us, moment(each.at_us), dated=dated),
                )
                for each in audit.fences.examples
            ],
        },
        doubts=doubts(audit),
        gaps=[(each.host, f"{each.missing:,}", f"{each.rows:,}") for each in audit.quality.gaps],
        clocks=[
            (each.host, f"{each.events:,}", *(duration(us) for us in (each.median_us, each.least_us, each.most_us)))
            for each in audit.quality.clocks
            if each.least_us or each.most_us
        ],
        examples=[
            (
                *(each.kind, each.event_id, each.subscription_id.replace("\0", " "), each.subscriber, each.subject),
                *(
                    NOTHING if us is None else time_text(us, moment(us), dated=dated)
                    for us in (each.published_us, each.expected_us, each.delivered_us)
                ),
            )
            for each in audit.examples
        ],
    )


def time_text(us: int, moment: datetime | None, *, dated: bool) -> str:
    """A time of a calendar in the zone of the data, or seconds since a simulation began."""
    if moment is None:
        return f"{us / 1e6:,.3f} s"
    return moment.isoformat(" ", "milliseconds") if dated else moment.time().isoformat("milliseconds")


def figures(audit: Audit) -> list[tuple[str, str]]:
    total = audit.total
    counts = ("expected", "delivered", "missed", "unwanted", "duplicates")
    return [
        ("delivery rate", percent(total.rate)),
        *((name, f"{getattr(total, name):,}") for name in counts),
        ("at once", percent(audit.at_once)),
        ("90 % within", milliseconds(total.latency_p90_us)),
        ("99 % within", milliseconds(total.latency_p99_us)),
    ]


def subject_row(line: Line) -> tuple[str, ...]:
    counts = (line.expected, line.delivered, line.missed, line.unwanted, line.duplicates)
    delays = (milliseconds(line.latency_p50_us), milliseconds(line.latency_p99_us))
    return (line.value, *(f"{count:,}" for count in counts), percent(line.rate), *delays)


def doubts(audit: Audit) -> list[tuple[str, str, str]]:
    """What ingest met that is not as it should be."""
    got = audit.quality.ingest
    met = (
        ("records missing", got.missing, "nobody knows; see the gaps"),
        ("records there more than once", got.duplicates, "taken once"),
        ("segments that came late", got.late, "taken"),
        ("records with times that cannot be meant", got.implausible, "left out"),
        ("segments quarantined", got.quarantined, "left out, with all their records"),
    )
    return [(what, f"{count:,}", became) for what, count, became in met if count]
