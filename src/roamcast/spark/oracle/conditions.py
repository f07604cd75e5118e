"""The five conditions of C6 over one bucket: which events an ideal system delivers to which subscriptions, and when.

Every pair of an event and a subscription is checked when the younger of the two appears, and then, while both last,
at every multiple of the period, exactly as `sim/ideal.py` does within a run. Of a pair only its first match counts.

A pair is checked only if it can match in this bucket: subscriber and audience, publisher and publication domain,
relevance and interest must come near each other (their boxes overlap), and the subject must fit. The most telling of
these is searched in a grid, the others are tested on what is left; where no region limits anything, the pairs come
from the subjects. Checks are made in blocks: first one of every pair, then more and more of those that have not
matched, so that a pair that matches at once costs one check.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from roamcast.model.filter.mask import Flags
from roamcast.spark.oracle.boxes import PAIRS_PER_CHUNK, Boxes, Rows, in_chunks, overlap, overlapping, spread
from roamcast.spark.oracle.bucket import Bucket, listed
from roamcast.spark.oracle.scopes import Scopes
from roamcast.spark.oracle.subjects import Subjects

FIRST_BLOCK = 1
BLOCK_GROWTH = 8
TRACKS_PER_PART = 20_000
EVENTS_PER_PART = 20
CHECKS_MAX = 1_000_000
"""At a time; beyond that the pairs are taken in turns."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    event: Rows
    life: Rows
    at_us: Rows


class Conditions:
    def __init__(self, bucket: Bucket, subject: Subjects | None = None) -> None:
        self.bucket = bucket
        events, lives, hosts = bucket.events, bucket.lives, bucket.host_boxes
        self.subject = subject or subjects_of(bucket)
        self.audience: Boxes = events.audience.regions.boxes(hosts, bucket.world.space)
        self.relevance: Boxes = events.relevance.regions.boxes(hosts, bucket.world.space)
        self.interest: Boxes = lives.interest.regions.boxes(hosts, bucket.world.space)
        self.publishers: Boxes = lives.publishers.regions.boxes(hosts, bucket.world.space)
        self.subscriber: Boxes = hosts.take(lives.subscriber)
        self.publisher: Boxes = hosts.take(events.publisher)
        # What nobody limits need not be tested.
        self.picky = lives.publishers.regions.there.any()
        self.local = events.relevance.regions.there.any() and lives.interest.regions.there.any()
        self._inside: dict[str, tuple[Rows, Rows]] = {}

    def matches(self, chosen: Rows, known: Rows) -> Iterator[Matches]:
        """The matches of the chosen events, without the pairs that are known to have matched (see `Matches.keys`)."""
        for event, life in self.candidates(chosen):
            event, life = self.possible(event, life)
            if len(known):
                new = ~np.isin(event * len(self.bucket.lives) + life, known)
                event, life = event[new], life[new]
            yield from self.settled(event, life)

    # Which pairs can match at all.

    def candidates(self, events: Rows) -> Iterator[tuple[Rows, Rows]]:
        of, lives = self.bucket.events, self.bucket.lives
        everyone = np.arange(len(lives))
        aimed = of.audience.regions.there[events]
        yield from self.near(self.audience, events[aimed], self.subscriber, everyone)
        events = events[~aimed]
        picky = lives.publishers.regions.there
        yield from self.near(self.publisher, events, self.publishers, everyone[picky])
        rest = everyone[~picky]
        placed, local = of.relevance.regions.there[events], lives.interest.regions.there[rest]
        yield from self.near(self.relevance, events[placed], self.interest, rest[local])
        yield from self.by_subject(events[placed], rest[~local])
        yield from self.by_subject(events[~placed], rest)

    def near(self, a: Boxes, in_a: Rows, b: Boxes, in_b: Rows) -> Iterator[tuple[Rows, Rows]]:
        for left, right in overlapping(a.take(in_a), b.take(in_b)):
            yield in_a[left], in_b[right]

    def by_subject(self, events: Rows, lives: Rows) -> Iterator[tuple[Rows, Rows]]:
        subjects_here, patterns = self.subject.given[events], self.subject.wanted[lives]
        for subject in np.unique(subjects_here):
            left, right = events[subjects_here == subject], lives[self.subject.fit(patterns, subject)]
            if not len(right):
                continue
            step = max(1, PAIRS_PER_CHUNK // len(right))
            for start in range(0, len(left), step):
                some = left[start : start + step]
                yield np.repeat(some, len(right)), np.tile(right, len(some))

    def possible(self, event: Rows, life: Rows) -> tuple[Rows, Rows]:
        """The candidates whose subject fits, that live together in this bucket, and whose other boxes overlap, too:
        those of an audience have been compared already."""
        of, lives = self.bucket.events, self.bucket.lives
        keep = self.subject.fit(self.subject.wanted[life], self.subject.given[event])
        begin = np.maximum(of.begin_us[event], lives.begin_us[life])
        end = np.minimum(of.end_us[event], lives.end_us[life])
        keep &= (begin <= end) & (begin < self.bucket.end_us) & (end >= self.bucket.start_us)
        event, life = event[keep], life[keep]
        if self.picky:
            limited = lives.publishers.regions.there[life]
            keep = ~limited | overlap(self.publisher.take(event), self.publishers.take(life))
            event, life = event[keep], life[keep]
        if self.local:
            keep = overlap(self.relevance.take(event), self.interest.take(life))
            event, life = event[keep], life[keep]
        return event, life

    # When they match first.

    def settled(self, event: Rows, life: Rows) -> Iterator[Matches]:
        first_us, tick_us, count = self.moments(event, life)
        done, block = 0, FIRST_BLOCK
        open_ = np.flatnonzero(count > 0)
        while len(open_):
            here = np.minimum(count[open_] - done, block)
            matched = np.zeros(len(open_), np.bool_)
            for some in in_chunks(here, CHECKS_MAX):
                pair, nth = spread(here[some])
                pair = some[pair]
                rows = open_[pair]
                at_us = np.where(nth + done == 0, first_us[rows], tick_us[rows] + (nth + done - 1) * self.period_us)
                hits = np.flatnonzero(self.match(event[rows], life[rows], at_us))
                # Conditions are in order of pair and time: of each pair the first hit is its match.
                which, at = np.unique(pair[hits], return_index=True)
                yield Matches(event[open_[which]], life[open_[which]], at_us[hits[at]])
                matched[which] = True
            done, block = done + block, block * BLOCK_GROWTH
            open_ = open_[~matched & (count[open_] > done)]

    @property
    def period_us(self) -> int:
        return self.bucket.world.period_us

    def moments(self, event: Rows, life: Rows) -> tuple[Rows, Rows, Rows]:
        """For each pair its first moment in this bucket, the tick after that, and how many moments there are."""
        of, lives, bucket = self.bucket.events, self.bucket.lives, self.bucket
        begin = np.maximum(of.begin_us[event], lives.begin_us[life])
        last = np.minimum(np.minimum(of.end_us[event], lives.end_us[life]), bucket.end_us - 1)
        first_tick_here = -(-bucket.start_us // self.period_us) * self.period_us
        first = np.where(begin >= bucket.start_us, begin, first_tick_here)
        tick = (first // self.period_us + 1) * self.period_us
        ticks = np.where(last >= tick, (last - tick) // self.period_us + 1, 0)
        return first, tick, np.where(first <= last, ticks + 1, 0)

    def match(self, event: Rows, life: Rows, at_us: Rows) -> Flags:
        """Conditions (i), (iii), (iv) and (v) at each check, the cheap ones first; (ii) is in the moments."""
        found = np.zeros(len(event), np.bool_)
        bucket, of, lives = self.bucket, self.bucket.events, self.bucket.lives
        left = np.flatnonzero(bucket.includes(of.audience, event, lives.subscriber[life], at_us))
        left = left[bucket.includes(lives.publishers, life[left], of.publisher[event[left]], at_us[left])]
        left = left[bucket.accepts(event[left], life[left], at_us[left])]
        left = left[self.share_a_host(event[left], life[left], at_us[left])]
        found[left] = True
        return found

    # Condition (iii): some host is in the context of relevance and in the context of interest.

    def share_a_host(self, event: Rows, life: Rows, at_us: Rows) -> Flags:
        of, lives = self.bucket.events, self.bucket.lives
        both_open = of.relevance.open[event] & lives.interest.open[life]
        found = both_open & self.bucket.tracks.anybody(at_us)
        left = np.flatnonzero(~both_open)
        # Those who sent and who read are in both more often than anybody else.
        for hosts in (lives.subscriber[life], of.publisher[event]):
            here = self.in_both(event[left], life[left], hosts[left], at_us[left])
            found[left[here]] = True
            left = left[~here]
        if len(left):
            found[left] = self.some_host(event[left], life[left], at_us[left])
        return found

    def in_both(self, event: Rows, life: Rows, hosts: Rows, at_us: Rows) -> Flags:
        bucket = self.bucket
        found = bucket.tracks.at(hosts, at_us).present
        left = np.flatnonzero(found)
        left = left[bucket.includes(bucket.events.relevance, event[left], hosts[left], at_us[left])]
        left = left[bucket.includes(bucket.lives.interest, life[left], hosts[left], at_us[left])]
        found[:] = False
        found[left] = True
        return found

    def some_host(self, event: Rows, life: Rows, at_us: Rows) -> Flags:
        """Asks once for each pair of scopes and moment, of those hosts who may be in one of the regions."""
        of, lives = self.bucket.events, self.bucket.lives
        asked = np.stack([of.relevance.same()[event], lives.interest.same()[life], at_us])
        _, first, back = np.unique(asked, axis=1, return_index=True, return_inverse=True)
        event, life, at_us = event[first], life[first], at_us[first]
        found = np.zeros(len(event), np.bool_)
        relevant, interested = of.relevance.regions.there[event], lives.interest.regions.there[life]
        everybody = np.arange(len(self.bucket.hosts))
        for some, scopes, name, boxes, rows in (
            (relevant, of.relevance, "relevance", self.relevance, event),
            (~relevant & interested, lives.interest, "interest", self.interest, life),
        ):
            which = np.flatnonzero(some)
            begins, hosts = self.inside(name, scopes, boxes)
            self.try_hosts(found, which, begins[rows[which]], begins[rows[which] + 1], hosts, event, life, at_us)
        which = np.flatnonzero(~relevant & ~interested)
        nothing = np.zeros(len(which), np.int64)
        self.try_hosts(found, which, nothing, nothing + len(everybody), everybody, event, life, at_us)
        return found[back.reshape(-1)]

    def try_hosts(
        self, found: Flags, which: Rows, begin: Rows, end: Rows, hosts: Rows, event: Rows, life: Rows, at_us: Rows
    ) -> None:
        """Marks the checks of which one of `hosts[begin:end]` is in both scopes."""
        counts = end - begin
        for some in in_chunks(counts, CHECKS_MAX):
            row, nth = spread(counts[some])
            row = some[row]
            check = which[row]
            hits = self.in_both(event[check], life[check], hosts[begin[row] + nth], at_us[check])
            found[check[hits]] = True

    def inside(self, name: str, scopes: Scopes, boxes: Boxes) -> tuple[Rows, Rows]:
        """For each scope with a region the hosts that may be inside in this bucket."""
        known = self._inside.get(name)
        if known is None:
            rows = np.flatnonzero(scopes.regions.there)
            near = self.near(boxes, rows, self.bucket.host_boxes, np.arange(len(self.bucket.hosts)))
            known = self._inside[name] = listed(near, len(boxes))
        return known


def subjects_of(bucket: Bucket) -> Subjects:
    return Subjects.of(bucket.events.subject, bucket.lives.subject)


def matches(bucket: Bucket, chosen: Rows | None = None) -> Iterator[Matches]:
    """The matches of the chosen events of a bucket, or of all, each pair once.

    The bucket is gone through in parts, short enough that nobody comes far: then the boxes say most of it.
    """
    subject, events = subjects_of(bucket), bucket.events
    chosen = np.arange(len(events)) if chosen is None else chosen
    known = np.zeros(0, np.int64)
    for start_us, end_us in parts_of(bucket, chosen):
        here = chosen[(events.begin_us[chosen] < end_us) & (events.end_us[chosen] >= start_us)]
        if not len(here):
            continue
        goes_on = events.end_us >= end_us
        for found in Conditions(bucket.during(start_us, end_us), subject).matches(here, known):
            yield found
            lasting = goes_on[found.event]
            if lasting.any():
                known = np.concatenate([known, (found.event * len(bucket.lives) + found.life)[lasting]])


def parts_of(bucket: Bucket, chosen: Rows) -> list[tuple[int, int]]:
    """About as many as a host has tracks, as long as each part is worth the trouble."""
    tracks = len(bucket.tracks.stretches.host)
    count = max(
        1, min(tracks // max(1, len(bucket.hosts)), tracks // TRACKS_PER_PART, len(chosen) // EVENTS_PER_PART)
    )
    borders = np.linspace(bucket.start_us, bucket.end_us, count + 1).astype(np.int64).tolist()
    return list(pairwise(borders))
