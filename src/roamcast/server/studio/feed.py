"""What happens, told to every open page: one frame each tenth of a second at most (L5).

Frames are made when they can be written, of what has changed since a page's last one (`page.py`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.broker.mqtt.positions import shown
from roamcast.broker.mqtt.properties import text_of
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.server.http.users import Who
from roamcast.server.studio.latencies import quantiles_ms
from roamcast.server.studio.page import Page
from roamcast.server.studio.shapes import (
    FENCE,
    Drawn,
    drawn_json,
    drawn_of_event,
    drawn_of_fence,
    drawn_of_subscription,
    entity_json,
    payload_json,
    point_json,
)
from roamcast.server.studio.watcher import Attendant, Watcher
from roamcast.server.studio.ways import Way

FRAME_S = 0.1
QUIET_US = 1_000_000
"""A frame comes this often at least, if only to tell the load; and those who said how they move are told again."""
RATE_US = 2_000_000
"""Rates are those of so long."""
PAGES_MAX = 32
ENTITIES_MAX = 5_000
REGIONS_MAX = 1_000
EVENTS_MAX = 100
DELIVERIES_MAX = 500
HANDOVERS_MAX = 100
"""Of a frame; of what has happened the newest, and the others are counted. Of what there is, the rest follows."""
FENCES_MAX = 1_000
"""Of one definition."""
DRAWN_MAX = 5_000
"""Regions that are drawn at all."""
OF_EVENTS = ("audience", "relevance")
"""Regions of events; the others are those of clients."""

_encoder = msgspec.json.Encoder()


class Feed(Attendant):
    def __init__(
        self,
        watcher: Watcher,
        now_us: Callable[[], int],
        hello: Callable[[str], dict[str, object]],
        peers: Sequence[str] = (),
        failed: Callable[[str, Exception], None] = lambda _, __: None,
    ) -> None:
        """`hello` says what a page that came to this host is told first; `peers` are the brokers that this one
        is to be linked to; `failed` is told of a mistake here, with what was being done."""
        self.watcher = watcher
        self.pages: dict[Page, None] = {}
        self.drawn: dict[str, Drawn] = {}
        self._anchored: dict[str, dict[str, None]] = {}
        """By anchor, the regions that move with it."""
        self._of: dict[str, dict[str, None]] = {}
        """By client, event or topic of fences, its regions."""
        self._now_us = now_us
        self._hello = hello
        self._peers = peers
        self._timer: asyncio.TimerHandle | None = None
        self._counts: deque[tuple[int, tuple[int, int, int]]] = deque()
        """When so many events and deliveries had been."""
        self._latencies: deque[tuple[int, dict[int, int]]] = deque()
        self._looked_us = 0
        self._tell_failure = failed
        self.failed = False

    # Pages.

    def opened(self, page: Page) -> bool:
        if self.failed or len(self.pages) >= PAGES_MAX:
            return False
        if not self.pages:
            self._begin()
        self.pages[page] = None
        self._show(page)
        return True

    def closed(self, page: Page) -> None:
        self.pages.pop(page, None)
        if not self.pages:
            self._end()

    def close(self) -> None:
        for page in list(self.pages):
            page.close()
        self._end()

    def check_rights(self, renewed: Callable[[Who], Who | None]) -> None:
        """The rules have changed: pages begin anew under them, or are closed."""
        for page in list(self.pages):
            who = renewed(page.who)
            if who is None:
                page.close()
            else:
                page.who = who
                page.begin_anew()

    def fail(self) -> None:
        """The watcher is told nothing any more: pages would show what was."""
        self.failed = True
        self.close()

    def _begin(self) -> None:
        watcher = self.watcher
        watcher.attendant = self
        for session in watcher.core.border.sessions.values():
            for wanted in (each.wanted for each in session.subscriptions.values()):
                self.wanted(wanted)
        for way in watcher.ways.newest():
            self.seen(way)
        for name in watcher.core.border.fencing.definitions():
            self.fenced(name)
        self._counts.append((self._now_us(), watcher.counted()))
        self._timer = asyncio.get_running_loop().call_later(FRAME_S, self._tick)

    def _end(self) -> None:
        self.watcher.attendant = None
        self.drawn.clear()
        self._anchored.clear()
        self._of.clear()
        self._counts.clear()
        self._latencies.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What has changed.

    def moved(self, client: str) -> None:
        anchored = self._anchored.get(client, ())
        for page in self.pages:
            page.changed(client)
            for name in anchored:
                page.drew(name)

    def gone(self, client: str) -> None:
        anchored = self._anchored.get(client, ())
        for page in self.pages:
            page.left(client)
            for name in anchored:
                page.drew(name)
        for name in list(self._of.get(client, ())):
            self._wipe(name)

    def wanted(self, wanted: Subscription) -> None:
        self.unwanted(wanted.subscriber, wanted.id)
        for drawn in drawn_of_subscription(wanted, text_of(wanted.id)):
            self._draw(drawn)

    def unwanted(self, host: str, subscription_id: str) -> None:
        for what in ("interest", "near"):
            self._wipe(f"{host}/{text_of(subscription_id)}/{what}")

    def seen(self, way: Way) -> None:
        for drawn in drawn_of_event(way.event):
            if drawn.until_us is None or drawn.until_us > self._now_us():
                self._draw(drawn)

    def fenced(self, name: str) -> None:
        topic = DEFINITIONS + name
        for each in list(self._of.get(topic, ())):
            self._wipe(each)
        for fence in islice(self.watcher.core.border.fencing.defined(name), FENCES_MAX):
            self._draw(drawn_of_fence(topic, fence))

    def _draw(self, drawn: Drawn) -> None:
        if len(self.drawn) >= DRAWN_MAX and drawn.id not in self.drawn:
            return
        self.drawn[drawn.id] = drawn
        self._of.setdefault(drawn.of, {})[drawn.id] = None
        if drawn.anchor is not None:
            self._anchored.setdefault(drawn.anchor, {})[drawn.id] = None
        for page in self.pages:
            page.drew(drawn.id)

    def _wipe(self, name: str) -> None:
        drawn = self.drawn.pop(name, None)
        if drawn is None:
            return
        take_out(self._of, drawn.of, name)
        if drawn.anchor is not None:
            take_out(self._anchored, drawn.anchor, name)
        for page in self.pages:
            page.wiped(name)

    # Frames.

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FRAME_S, self._tick)
        try:
            self._tell_pages()
        except Exception as problem:
            self.fail()
            self._tell_failure("a frame", problem)

    def _tell_pages(self) -> None:
        now_us = self._now_us()
        self._counts.append((now_us, self.watcher.counted()))
        self._latencies.append((now_us, self.watcher.latencies.take()))
        while len(self._counts) > 1 and self._counts[0][0] < now_us - RATE_US:
            self._counts.popleft()
        while self._latencies[0][0] < now_us - RATE_US:
            self._latencies.popleft()
        if now_us - self._looked_us >= QUIET_US:
            self._looked_us = now_us
            self._look_around(now_us)
        for page in list(self.pages):
            self._show(page)

    def _look_around(self, now_us: int) -> None:
        """What changes without a word: time passes, and who moves goes on."""
        for name in [each.id for each in self.drawn.values() if each.until_us and each.until_us <= now_us]:
            self._wipe(name)
        for client, known in self.watcher.past.now.items():
            if known.context.velocity is not None:
                self.moved(client)

    def _show(self, page: Page) -> None:
        if not page.reads:
            return
        now_us = self._now_us()
        if page.fresh:
            self._say(page, self._hello(page.host))
            self._start(page)
        elif page.paused or not self._is_due(page, now_us):
            return
        page.told_us = now_us
        self._say(page, self._frame(page, now_us))

    def _say(self, page: Page, frame: dict[str, object]) -> None:
        page.frames += 1
        page.tell(_encoder.encode(frame))

    def _start(self, page: Page) -> None:
        """With all that is here; of what has happened, what comes from now on and the last events."""
        watcher = self.watcher
        page.fresh = False
        page.entities = dict.fromkeys(watcher.past.now)
        page.regions = dict.fromkeys(self.drawn)
        page.events = max(0, watcher.ways.seen - EVENTS_MAX)
        page.deliveries, page.handovers = watcher.deliveries.seen, watcher.handovers.seen

    def _is_due(self, page: Page, now_us: int) -> bool:
        watcher = self.watcher
        return bool(
            page.entities
            or page.gone
            or page.regions
            or page.regions_gone
            or watcher.ways.seen > page.events
            or watcher.deliveries.seen > page.deliveries
            or watcher.handovers.seen > page.handovers
            or now_us - page.told_us >= QUIET_US
        )

    def _frame(self, page: Page, now_us: int) -> dict[str, object]:
        watcher = self.watcher
        ways = watcher.ways
        events = ways.after(page.events, EVENTS_MAX)
        deliveries = watcher.deliveries.after(page.deliveries, DELIVERIES_MAX)
        handovers = watcher.handovers.after(page.handovers, HANDOVERS_MAX)
        left_out = {
            "events": ways.seen - page.events - len(events),
            "deliveries": watcher.deliveries.seen - page.deliveries - len(deliveries),
        }
        page.events, page.deliveries = ways.seen, watcher.deliveries.seen
        page.handovers = watcher.handovers.seen
        entities, gone = self._entities(page, now_us)
        regions, regions_gone = self._regions(page, now_us)
        return {
            "kind": "tick",
            "at_us": now_us,
            "entities": entities,
            "gone": gone,
            "regions": regions,
            "regions_gone": regions_gone,
            "events": [event_json(way, watcher.space) for way in events if page.who.hears(way.event.subject)],
            "deliveries": [
                {"event": each.event, "to": each.to, "at_us": each.at_us}
                for each in deliveries
                if page.who.sees(each.to) and self._hears(page, each.event)
            ],
            "handovers": [
                {"client": each.client, "from": watcher.core.host, "to": each.to, "at_us": each.at_us}
                for each in handovers
                if page.who.sees(each.client)
            ],
            "load": self._load(),
            "left_out": left_out,
        }

    def _entities(self, page: Page, now_us: int) -> tuple[list[dict[str, object]], list[str]]:
        found: list[dict[str, object]] = []
        gone = [client for client in page.gone if page.knew(client)]
        page.gone.clear()
        for client in taken(page.entities, ENTITIES_MAX):
            if not page.shows(client, page.who.sees(client)):
                continue
            known = self.watcher.past.now.get(client)
            told = None if known is None else entity_json(known.context, known.connected, now_us, self.watcher.space)
            if told is None:
                gone.append(client)
            else:
                found.append(told)
        return found, gone

    def _regions(self, page: Page, now_us: int) -> tuple[list[dict[str, object]], list[str]]:
        found: list[dict[str, object]] = []
        gone = [name for name in page.regions_gone if page.knew(name)]
        page.regions_gone.clear()
        for name in taken(page.regions, REGIONS_MAX):
            drawn = self.drawn.get(name)
            if drawn is None or not page.shows(name, self._may_see(page, drawn)):
                continue
            anchor = None if drawn.anchor is None else self.watcher.past.now.get(drawn.anchor)
            seen = None if anchor is None else shown(anchor.context, self.watcher.space)
            described = None if anchor and not seen else drawn_json(drawn, seen, now_us, self.watcher.space)
            if described is None:
                gone.append(name)
            else:
                found.append(described)
        return found, gone

    def _hears(self, page: Page, event_id: str) -> bool:
        if page.who.policy.open:
            return True
        way = self.watcher.ways.get(event_id)
        return way is not None and page.who.hears(way.event.subject)

    def _may_see(self, page: Page, drawn: Drawn) -> bool:
        if drawn.what == FENCE:
            # One that moves with a client shows where that is.
            return page.who.hears(drawn.of) and (drawn.anchor is None or page.who.sees(drawn.anchor))
        return self._hears(page, drawn.of) if drawn.what in OF_EVENTS else page.who.sees(drawn.of)

    def _load(self) -> dict[str, object]:
        core = self.watcher.core
        streams = core.broker.neighbours.streams.of
        rates = [0.0, 0.0, 0.0]
        if len(self._counts) > 1:
            (from_us, before), (to_us, now) = self._counts[0], self._counts[-1]
            seconds = max(1, to_us - from_us) / 1e6
            rates = [(each - earlier) / seconds for each, earlier in zip(now, before, strict=True)]
        published_per_s, events_per_s, deliveries_per_s = rates
        return {
            "clients": sum(known.connected for known in self.watcher.past.now.values()),
            "subscriptions": len(core.border.audience),
            "published_per_s": round(published_per_s, 1),
            "events_per_s": round(events_per_s, 1),
            "deliveries_per_s": round(deliveries_per_s, 1),
            "latency_ms": quantiles_ms((each for _, each in self._latencies), 0.5, 0.99),
            "links": [
                {"to": peer, "up": peer in streams and streams[peer].up}
                for peer in dict.fromkeys([*self._peers, *streams])
            ],
        }


def take_out(index: dict[str, dict[str, None]], key: str, name: str) -> None:
    names = index[key]
    del names[name]
    if not names:
        del index[key]


def taken(names: dict[str, None], most: int) -> list[str]:
    """The first of them; they are not there any more."""
    if len(names) <= most:
        found = list(names)
        names.clear()
        return found
    found = [name for name, _ in zip(names, range(most), strict=False)]
    for name in found:
        del names[name]
    return found


def event_json(way: Way, space: Space) -> dict[str, object]:
    event = way.event
    publisher = shown(event.publisher, space)
    return {
        "id": event.id,
        "subject": event.subject,
        "from": event.publisher.host,
        "at": None if publisher is None else point_json(publisher.position_at(event.published_us, space)),
        "published_us": event.published_us,
        "payload": payload_json(way.payload),
    }
