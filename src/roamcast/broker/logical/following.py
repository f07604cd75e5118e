"""Following: how brokers route what depends on a client's place or state (R4, R5, R7; Rebeca, section 5).

Such a subscription does not take part in the routing strategies. It goes from broker to broker as a template
(`template.py`), one by one, and each broker holds it bound to what the client may be like when an event that passes
now arrives there: at the border to the places within steps_1 of where the client was last, one broker further within
steps_2, and so on (`steps_ahead`). The client itself judges by where it is.

    client moves      -> its border broker gets `Report`, binds anew and says `Located` to its neighbours;
    `Located`         -> a broker binds anew. If what it holds stays the same, so does what brokers behind it hold,
                         because the places within q + 1 steps follow from those within q; it says nothing then;
    client goes away  -> `Located` with `away`: brokers look further, since it may walk on unseen;
    `Unlocated`       -> the subscription has ended, or its client is at another broker now.

Each change replaces what was held in one go, so there is no moment without. Guarantee: an event reaches its client if
the client's place accepts it on arrival and, since the news that each broker on the way goes by, it has made no
more steps than that broker provides for. A client that makes one step at most in the time that a word to the farthest
producer and back takes gets exactly what flooding would give it.

A border may judge an event itself, by what held when it was published (`Template.since_us`). Then a broker that has
learned of a move lets events that were published before the move pass by what it had held until then (`Former`).
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.logical.delays import Delays
from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.logical.reach import Reach, excludes_places, reads_attributes, reads_place, within
from roamcast.broker.logical.template import DURATION_US_MAX, Template, steps_ahead
from roamcast.broker.messages import Located, Unlocated
from roamcast.broker.router import PeerMessages, Router
from roamcast.broker.wishes import Table, Wish
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import STEPS_MAX, Filter
from roamcast.model.places import MovementGraph
from roamcast.model.subject import subject_matches, subjects_overlap

FORMER_US = 5_000_000
"""For as long a border remembers what held when an event was published (docs/PROTOCOL.md, P-7)."""
FORMER_MAX = 10_000


class Held(Struct, frozen=True):
    template: Template
    wish: Wish
    """As it is bound at this broker."""


class Former(Struct, frozen=True):
    """How a template was bound until its client had moved."""

    source: str
    held: Held
    until_us: int
    latest_us: int
    """The latest such time so far: borders have clocks of their own."""


class Following:
    def __init__(self, params: LogicalParams, router: Router, graph: MovementGraph | None) -> None:
        self.params = params
        self.router = router
        self.graph = graph
        self.delays = Delays(params.delays_max)
        self.table = Table(router.space)
        self.held: dict[str, dict[str, Held]] = {}
        """By source and id."""
        self.former: deque[Former] = deque(maxlen=FORMER_MAX)
        router.beside.append(self)

    def adopt(self, params: LogicalParams, graph: MovementGraph | None) -> None:
        """Goes on with another movement graph. Other brokers have their own, and need not be told."""
        self.params, self.graph = params, graph
        for source, templates in self.held.items():
            for held in list(templates.values()):
                self._bind(source, held.template)

    def __len__(self) -> int:
        return len(self.table)

    def follows(self, filter_: Filter) -> bool:
        """Whether the filter can be bound to where its client is, or to what it is like."""
        if self.graph is not None and reads_place(filter_):
            return True
        return any(name in self.params.drifts for name in reads_attributes(filter_))

    def bound(self, template: Template) -> Filter:
        steps = self.params.steps
        if steps is None:
            steps = steps_ahead(template.delay_us, template.state.residence_us) + self.params.steps_spare
        if template.away:
            steps += self.params.away_steps
        return within(
            template.filter,
            Reach(self.graph, template.state.place, min(steps, STEPS_MAX), self._ranges(template)),
        )

    def _ranges(self, template: Template) -> dict[str, tuple[float, float]]:
        if template.away:
            return {}
        ranges: dict[str, tuple[float, float]] = {}
        for name, low, high in template.state.values:
            drift = self.params.drifts.get(name)
            if drift is not None:
                ahead = drift.per_s * template.delay_us / 1e6
                ranges[name] = (low - ahead, high + ahead)
        return ranges

    # What is held.

    def hold(self, source: str, template: Template) -> PeerMessages:
        """A new template, or what has become of one."""
        known = self.held.get(source, {}).get(template.id)
        wish = self._bind(source, template)
        if known is not None and known.wish == wish and self._alike(known.template, template):
            return []
        if known is not None and known.wish != wish:
            self._remember(source, known, template.since_us)
        return [(peer, self._onward(template, peer)) for peer in self._others(source, template)]

    def _bind(self, source: str, template: Template) -> Wish:
        known = self.held.get(source, {}).get(template.id)
        wish = Wish(template.id, template.subject, self.bound(template))
        if known is None or known.wish != wish:
            self.table.remove(source, template.id)
            self.table.add(source, wish)
        self.held.setdefault(source, {})[template.id] = Held(template, wish)
        return wish

    def _remember(self, source: str, held: Held, until_us: int) -> None:
        if until_us <= held.template.since_us:
            return
        latest_us = max(until_us, self.former[-1].latest_us if self.former else 0)
        while self.former and self.former[0].latest_us < latest_us - FORMER_US:
            self.former.popleft()
        self.former.append(Former(source, held, until_us, latest_us))

    def _alike(self, one: Template, other: Template) -> bool:
        """Whether two templates that are bound alike here differ in nothing that is bound otherwise further away."""
        if replace(one, state=replace(one.state, place=other.state.place), since_us=other.since_us) != other:
            return False
        # What all possible places exclude may be the same here and differ one step further.
        return one.state.place == other.state.place or not excludes_places(one.filter)

    def release(self, source: str, template_id: str) -> PeerMessages:
        if self.table.remove(source, template_id) is None:
            return []
        template = self.held[source].pop(template_id).template
        if not self.held[source]:
            del self.held[source]
        if not self.held:
            self.former.clear()
        return [(peer, Unlocated(template_id)) for peer in self._others(source, template)]

    def filter_of(self, source: str, template_id: str) -> Filter | None:
        """As the template is bound here; None if there is none."""
        held = self.held.get(source, {}).get(template_id)
        return None if held is None else held.wish.filter

    def concerned(self, event: Event) -> dict[str, None]:
        concerned = self.table.concerned(event)
        for former in reversed(self.former):
            if former.latest_us <= event.published_us:
                break
            if former.source not in concerned and self._concerned(former, event):
                concerned[former.source] = None
        return concerned

    def _concerned(self, former: Former, event: Event) -> bool:
        """Whether it was published before the client moved, and the subscription is still the same."""
        template, wish = former.held.template, former.held.wish
        held = self.held.get(former.source, {}).get(template.id)
        return (
            event.published_us < former.until_us
            and held is not None
            and held.template.filter == template.filter
            and subject_matches(template.subject, event.subject)
            and accepts(wish.filter, Scene(event.attributes.get, None, event.publisher), self.router.space)
        )

    def sources_of(self, topic: str) -> Iterator[str]:
        return self.table.sources_of(topic)

    def any_below(self, pattern: str) -> bool:
        return self.table.any_below(pattern)

    def _others(self, source: str, template: Template) -> list[str]:
        # Where events go everywhere unasked, nobody further away need know.
        if self.router.strategy == "flooding":
            return []
        return [
            peer for peer in self.router.neighbours if peer != source and self.router.leads(peer, template.subject)
        ]

    def _onward(self, template: Template, peer: str) -> Located:
        delay_us = min(template.delay_us + self.delays.of(peer), DURATION_US_MAX)
        return Located(replace(template, delay_us=delay_us))

    # Neighbours.

    def meet(self, peer: str) -> PeerMessages:
        return self._all_to(peer)

    def part(self, peer: str) -> PeerMessages:
        self.delays.forget(peer)
        outgoing: PeerMessages = []
        for template_id in list(self.held.get(peer, {})):
            outgoing += self.release(peer, template_id)
        return outgoing

    def measured(self, peer: str, round_trip_us: int) -> PeerMessages:
        """An echo: brokers behind a link that takes longer than thought look further ahead."""
        if peer not in self.router.neighbours or not self.delays.measured(peer, round_trip_us):
            return []
        return self._all_to(peer)

    def _all_to(self, peer: str) -> PeerMessages:
        return [
            (peer, self._onward(held.template, peer))
            for source, templates in self.held.items()
            for held in templates.values()
            if peer in self._others(source, held.template)
        ]

    def lead(self, peer: str, opens: bool, subject: str) -> PeerMessages:
        """Asks for templates that the advertisement concerns, and withdraws those that nothing else there does."""
        return [
            (peer, self._onward(held.template, peer) if opens else Unlocated(held.template.id))
            for source, templates in self.held.items()
            if source != peer and self.router.strategy != "flooding"
            for held in templates.values()
            if subjects_overlap(held.template.subject, subject)
            and (opens or not self.router.leads(peer, held.template.subject))
        ]
