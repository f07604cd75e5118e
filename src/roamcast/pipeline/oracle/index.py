"""The event side as one file: all publications and subscriptions of a journal, ready for the compiled kernel.

It is written once, mapped into memory by every worker, and holds

- the events and subscriptions themselves, as Arrow tables, for conditions that only `looks.py` can ask;
- which events a bucket of time has, and which subscriptions a host has, as lists in one array with where each begins;
- what the kernel reads of them, as numbers: times, subjects, regions;
- what can be said once for all: which patterns match which subjects, and which filters accept which events. A filter
  that reads nothing but the event and its publisher as it was then has one answer for each event.

An event is *swift* if the kernel can find its subscribers: on a plane, with an audience in a circle or a box that
stands still while the event lasts. It *asks* more if relevance or audience need what the kernel does not know; so
may a subscription. Pairs with such go to `looks.py` after the kernel has found that they are near each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.filter.mask import Column, Columns, Flags, Pairs, mask
from roamcast.model.filter.tree import AtMyLoc, Closing, Filter, Near, atoms
from roamcast.model.space import Plane
from roamcast.pipeline.job import Settings
from roamcast.pipeline.oracle.attributes import Attributes, all_taken, one_array, texts
from roamcast.pipeline.oracle.boxes import Rows, spread
from roamcast.pipeline.oracle.bucket import Hosts, integers, pairs, reads_of
from roamcast.pipeline.oracle.looks import Subjects
from roamcast.pipeline.oracle.scopes import BOX, CIRCLE, FIXED, NO_FILTER, Filters, Regions, Scopes, scopes_of
from roamcast.pipeline.oracle.sections import BadSections, Sections

VERDICTS_MAX = 200_000_000
"""Answers of filters about events, a byte each; filters beyond that are asked pair by pair."""
ASKED_LATER = -1
"""In place of a filter's row of answers."""
NUMBERS = {
    "event_begin_us": np.int64,
    "event_end_us": np.int64,
    "event_subject": np.int64,
    "event_publisher": np.int64,
    "event_swift": np.bool_,
    "event_asks": np.bool_,
    "life_begin_us": np.int64,
    "life_end_us": np.int64,
    "life_pattern": np.int64,
    "life_content": np.int64,
    "life_domain": np.int64,
    "life_asks": np.bool_,
    "fits": np.bool_,
    "content": np.bool_,
    "domain_life": np.int64,
    "bucket_first": np.int64,
    "bucket_events": np.int64,
    "host_first": np.int64,
}
REGION_NUMBERS = ("shape", "anchor", "x", "y", "x2", "y2", "radius_m", "reference_x", "reference_y")
REGION_KINDS = {name: np.int64 if name in ("shape", "anchor") else np.float64 for name in REGION_NUMBERS}
REGIONS = ("audience", "relevance", "interest")


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Circles and boxes by number, as `Regions` has them."""

    shape: Rows
    anchor: Rows
    x: Any
    y: Any
    x2: Any
    y2: Any
    radius_m: Any
    reference_x: Any
    reference_y: Any

    def take(self, rows: Rows) -> "Outlines":
        return Outlines(*(getattr(self, name)[rows] for name in REGION_NUMBERS))


class EventSide:
    """The index, opened; all that compiled code relies on has been checked."""

    def __init__(self, path: str) -> None:
        file = Sections(path)
        self.number: Mapping[str, Any] = {name: file.array(name, kind) for name, kind in NUMBERS.items()}
        self.outlines = {
            name: Outlines(*(file.array(f"{name}_{part}", REGION_KINDS[part]) for part in REGION_NUMBERS))
            for name in REGIONS
        }
        self.events, self.lives = file.table("events"), file.table("lives")
        self._hosts = file.table("hosts")
        check(self, path)

    def __getitem__(self, name: str) -> Any:
        return self.number[name]

    @cached_property
    def hosts(self) -> Any:
        return one_array(self._hosts["host"])

    @property
    def buckets(self) -> int:
        return len(self["bucket_first"]) - 1

    def events_of(self, bucket: int) -> Rows:
        first = self["bucket_first"]
        rows: Rows = self["bucket_events"][first[bucket] : first[bucket + 1]]
        return rows

    def events_by_bucket(self) -> Rows:
        counts: Rows = np.diff(self["bucket_first"])
        return counts

    def each_in_one_bucket(self, settings: Settings) -> bool:
        """Whether no event lasts into the next bucket and all ids are there once: then every pair is found once."""
        begin_us, end_us = self["event_begin_us"] - settings.first_us, self["event_end_us"] - settings.first_us
        again = any(pc.any(table["again"]).as_py() for table in (self.events, self.lives))
        return not again and bool(
            ((begin_us >= 0) & (begin_us // settings.bucket_us == end_us // settings.bucket_us)).all()
        )

    def numbers_of(self, hosts: Any) -> Rows:
        """The numbers of hosts by name, in a column that may be coded; -1 for one that neither sends nor wants."""
        column = one_array(hosts)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = pc.index_in(coded.dictionary.cast(pa.string()), value_set=self.hosts).fill_null(-1)
        numbers: Rows = known.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers[coded.indices.to_numpy(zero_copy_only=False)] if len(numbers) else np.zeros(0, np.int64)


def check(side: EventSide, path: str) -> None:
    """Whether every number is one that may be used to look something up."""
    events, lives = len(side.events), len(side.lives)
    fits, content = side["fits"], side["content"]
    domains = len(side["domain_life"])
    if fits.ndim != 2 or content.ndim != 2 or content.shape[1] != events:
        raise BadSections(f"{path}: answers about {content.shape} events of {events}")
    for name, found in side.number.items():
        rows = events if name.startswith("event_") else lives if name.startswith("life_") else len(found)
        if len(found) != rows:
            raise BadSections(f"{path}: section '{name}' has {len(found)} rows, and must have {rows}")
    for name in REGIONS:
        outline = side.outlines[name]
        rows = lives if name == "interest" else events
        if any(len(getattr(outline, part)) != rows for part in REGION_NUMBERS):
            raise BadSections(f"{path}: the regions of '{name}' are not whole")
    for name, low, high in (
        ("event_subject", 0, fits.shape[1]),
        ("event_publisher", -1, len(side.hosts)),
        ("life_pattern", 0, fits.shape[0]),
        ("life_content", ASKED_LATER, len(content)),
        ("life_domain", 0, domains),
        ("domain_life", -1, lives),
        ("bucket_events", 0, events),
    ):
        numbers = side[name]
        if len(numbers) and not (low <= numbers.min() and numbers.max() < high):
            raise BadSections(f"{path}: section '{name}' has numbers beyond {low} to {high - 1}")
    for name, last in (("bucket_first", len(side["bucket_events"])), ("host_first", lives)):
        first = side[name]
        if not len(first) or first[0] != 0 or first[-1] != last or (np.diff(first) < 0).any():
            raise BadSections(f"{path}: section '{name}' is not a list of ascending beginnings up to {last}")
    if len(side["host_first"]) != len(side.hosts) + 1:
        raise BadSections(f"{path}: {len(side['host_first']) - 1} lists of subscriptions for {len(side.hosts)} hosts")


def event_side(events: Any, lives: Any, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and tables of the index; both tables are of one row each."""
    events = events.take(pc.sort_indices(events, [("begin_us", "ascending"), ("event_id", "ascending")]))
    scopes = [events["relevance"], events["audience"], lives["interest"], lives["publishers"]]
    anchors = [pc.struct_field(one_array(column), ["region", "anchor"]) for column in scopes]
    publisher = pc.struct_field(one_array(events["publisher"]), "host")
    hosts = Hosts([publisher, lives["subscriber"], *anchors])
    subscriber = hosts.numbers(lives["subscriber"])
    order = np.argsort(subscriber, kind="stable")
    lives = lives.take(pa.array(order))
    filters = Filters()
    relevance, audience = (scopes_of(events[name], filters, hosts.numbers) for name in ("relevance", "audience"))
    interest = scopes_of(lives["interest"], filters, hosts.numbers)
    arrays = {
        **numbers_of_events(events, hosts.numbers(publisher), relevance, audience, settings),
        **numbers_of_lives(lives, interest),
        "host_first": beginnings(subscriber, len(hosts)),
        **by_bucket(integers(events["begin_us"]), integers(events["end_us"]), settings),
        **answers(events, lives, settings),
    }
    for name, scope in zip(REGIONS, (audience, relevance, interest), strict=True):
        arrays |= {
            f"{name}_{part}": getattr(scope.regions, part).astype(REGION_KINDS[part]) for part in REGION_NUMBERS
        }
    return arrays, {"events": events, "lives": lives, "hosts": pa.table({"host": hosts.names})}


def numbers_of_events(
    events: Any, publisher: Rows, relevance: Scopes, audience: Scopes, settings: Settings
) -> dict[str, Any]:
    begin_us, end_us = integers(events["begin_us"]), integers(events["end_us"])
    at_once = begin_us == end_us
    plane = isinstance(settings.space, Plane)
    aimed = drawn(audience.regions) & ((audience.regions.anchor == FIXED) | at_once)
    relevant = (drawn(relevance.regions) | ~relevance.regions.there) & ((relevance.regions.anchor == FIXED) | at_once)
    return {
        "event_begin_us": begin_us,
        "event_end_us": end_us,
        "event_publisher": publisher,
        "event_swift": aimed & plane,
        "event_asks": (audience.filter != NO_FILTER) | (relevance.filter != NO_FILTER) | ~relevant,
    }


def numbers_of_lives(lives: Any, interest: Scopes) -> dict[str, Any]:
    regions = interest.regions
    still = ~regions.there | (drawn(regions) & (regions.anchor == FIXED))
    domain, domain_life = domains(lives["publishers"])
    return {
        "life_begin_us": integers(lives["begin_us"]),
        "life_end_us": integers(lives["end_us"]),
        "life_asks": (interest.filter != NO_FILTER) | ~still,
        "life_domain": domain,
        "domain_life": domain_life,
    }


def drawn(regions: Regions) -> Flags:
    """Whether the kernel knows the shape."""
    found: Flags = (regions.shape == CIRCLE) | ((regions.shape == BOX) & (regions.x <= regions.x2))
    return found


def domains(publishers: Any) -> tuple[Rows, Rows]:
    """The publication domain of each subscription by number, and a subscription that has it; 0 is the open one."""
    column = one_array(publishers)
    region, text = (pc.struct_field(column, name) for name in ("region", "filter"))
    open_ = pc.and_(pc.is_null(pc.struct_field(region, "shape")), pc.is_null(text)).to_numpy(zero_copy_only=False)
    number, first, known = np.zeros(len(column), np.int64), [-1], {}
    asked = np.flatnonzero(~open_)
    for row, scope in zip(asked, column.take(pa.array(asked)).to_pylist(), strict=True):
        key = repr(scope)
        if key not in known:
            known[key] = len(first)
            first.append(int(row))
        number[row] = known[key]
    return number, np.array(first, np.int64)


def answers(events: Any, lives: Any, settings: Settings) -> dict[str, Any]:
    """Subjects and filters: what does not depend on when one asks."""
    subject = Subjects.of_columns(one_array(events["subject"]), one_array(lives["subject"]))
    filters = Filters()
    number = filters.numbers(lives["filter"])
    row_of = np.full(len(filters.all) + 1, ASKED_LATER)
    rows: list[Flags] = []
    for each, filter_ in enumerate(filters.all):
        if once_for_all(filter_) and (len(rows) + 1) * len(events) <= VERDICTS_MAX:
            row_of[each] = len(rows)
            rows.append(mask(filter_, columns_of(filter_, events), settings.space, settings.graph))
    content = np.array(rows, np.bool_) if rows else np.zeros((0, len(events)), np.bool_)
    return {
        "event_subject": subject.given,
        "life_pattern": subject.wanted,
        "life_content": row_of[number],
        "fits": subject.fits,
        "content": content,
    }


def once_for_all(filter_: Filter) -> bool:
    """Whether it reads nothing of its reader."""
    reads = reads_of(filter_)
    moving = any(isinstance(atom, Near | Closing | AtMyLoc) for atom in atoms(filter_.root))
    return not (reads.mine or reads.neighbours or moving)


def columns_of(filter_: Filter, events: Any) -> Columns:
    """What a filter that reads nothing of its reader reads of all events, as `Bucket` has it for pairs."""
    reads, count = reads_of(filter_), len(events)
    publisher = one_array(events["publisher"])
    part = {field.name: pc.struct_field(publisher, field.name) for field in publisher.type}
    everyone = np.arange(count)
    seen = dict(all_taken(Attributes(part["attributes"]), reads.publishers, everyone))
    if "host" in reads.publishers:
        seen["host"] = Column(text=texts(one_array(part["host"]), everyone, count))
    if "position" in reads.publishers:
        seen["position"] = Column(position=pairs(part["x"], part["y"]))
    nothing = Pairs(np.zeros(count), np.zeros(count), np.zeros(count, np.bool_))
    attributes = all_taken(Attributes(events["attributes"]), reads.attributes, everyone)
    return Columns(count, attributes, {}, seen, nothing, nothing, {})


def by_bucket(begin_us: Rows, end_us: Rows, settings: Settings) -> dict[str, Any]:
    """The events of each bucket that they touch, in their order."""
    first = np.maximum((begin_us - settings.first_us) // settings.bucket_us, 0)
    last = np.maximum((np.minimum(end_us, settings.until_us) - settings.first_us) // settings.bucket_us, 0)
    event, nth = spread(np.maximum(last - first + 1, 0))
    bucket = first[event] + nth
    order = np.argsort(bucket, kind="stable")
    count = max(1, -(-(settings.until_us + 1 - settings.first_us) // settings.bucket_us))
    return {"bucket_first": beginnings(bucket, count), "bucket_events": event[order]}


def beginnings(numbers: Rows, count: int) -> Rows:
    """Where the list of each number begins if they are sorted, and where the last one ends."""
    found: Rows = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=count))]).astype(np.int64)
    return found
