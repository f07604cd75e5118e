"""The event side of a bucket: its events and subscriptions, ready for the compiled kernel.

It has the events and subscriptions themselves, as Arrow tables, for what only `conditions.py` can ask; which
subscriptions a host has, as lists in one array with where each begins; what the kernel reads of them, as numbers:
times, subjects, regions; and what can be said once for all: which patterns match which subjects, and which filters
accept which events. A filter that reads nothing but the event and its publisher as it was then has one answer for
each event, and is asked once.

An event is *simple* if the kernel can find its subscribers: on a plane, with an audience in a circle or a box that
stands still while the event lasts. It *asks* more if relevance or audience need what the kernel does not know; so
may a subscription. Pairs with such go to `conditions.py` after the kernel has found that they are near each other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.filter.mask import Column, Columns, Flags, Pairs, mask
from roamcast.model.filter.tree import AtMyLoc, Closing, Filter, Near, atoms
from roamcast.model.space import Plane
from roamcast.spark.oracle.attributes import Attributes, all_taken, one_array, texts
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.oracle.bucket import Hosts, integers, pairs, reads_of
from roamcast.spark.oracle.scopes import BOX, CIRCLE, FIXED, NO_FILTER, Filters, Regions, Scopes, scopes_of
from roamcast.spark.oracle.subjects import Subjects
from roamcast.spark.settings import Settings

VERDICTS_MAX = 200_000_000
"""Answers of filters about events, a byte each; filters beyond that are asked pair by pair."""
ASKED_LATER = -1
"""In place of a filter's row of answers."""
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
    """All numbers are made here and in this process: compiled code, which checks no bounds, may rely on them."""

    def __init__(
        self, events: Any, lives: Any, hosts: Any, number: dict[str, Any], outlines: dict[str, Outlines]
    ) -> None:
        self.events, self.lives, self.hosts = events, lives, hosts
        self.number, self.outlines = number, outlines

    def __getitem__(self, name: str) -> Any:
        return self.number[name]

    def numbers_of(self, hosts: Any) -> Rows:
        """The numbers of hosts by name, in a column that may be coded; -1 for one that neither sends nor wants."""
        column = one_array(hosts)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = pc.index_in(coded.dictionary.cast(pa.string()), value_set=self.hosts).fill_null(-1)
        numbers: Rows = known.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers[coded.indices.to_numpy(zero_copy_only=False)] if len(numbers) else np.zeros(0, np.int64)


def event_side(events: Any, lives: Any, settings: Settings) -> EventSide:
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
        **answers(events, lives, settings),
    }
    outlines = {
        name: Outlines(*(getattr(scope.regions, part).astype(REGION_KINDS[part]) for part in REGION_NUMBERS))
        for name, scope in zip(REGIONS, (audience, relevance, interest), strict=True)
    }
    return EventSide(events, lives, hosts.names, arrays, outlines)


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
        "event_simple": aimed & plane,
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
    subject = Subjects.of(one_array(events["subject"]), one_array(lives["subject"]))
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
        "fits": subject.bits,
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


def beginnings(numbers: Rows, count: int) -> Rows:
    """Where the list of each number begins if they are sorted, and where the last one ends."""
    found: Rows = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=count))]).astype(np.int64)
    return found
