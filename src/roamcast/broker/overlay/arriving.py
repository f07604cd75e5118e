"""The broker that something comes to: D of the eight steps (`relocation.py`; O4, O6).

From the moment it agrees it buffers what arrives for what will come, and works on that when it has come.
"""

from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.overlay.acquaintance import Acquaintance
from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.messages import (
    Address,
    Agree,
    Ask,
    Cancel,
    ClientAddress,
    Enrol,
    Handoff,
    HandoffPart,
    HomeState,
    Modulated,
    PostState,
    Refuse,
    Refused,
    Retire,
    Routed,
    SwitchedOff,
)
from roamcast.broker.overlay.moves import Arrival, Buffered
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.pieces import Pieces
from roamcast.broker.overlay.posts import post_from, refused_by
from roamcast.broker.overlay.sessions import session_from
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note, Send


class Arriving:
    def __init__(
        self,
        host: str,
        params: OverlayParams,
        brokers: BrokerManager,
        clients: ClientManager,
        acquaintance: Acquaintance,
        space: Space,
    ) -> None:
        self.host = host
        self.params = params
        self.brokers = brokers
        self.clients = clients
        self.acquaintance = acquaintance
        self.losses = acquaintance.departing.losses
        self.space = space
        self.arrivals: dict[tuple[str, str], Arrival] = {}
        """By client and the broker it comes from."""

    def asked(self, now_us: int, ask: Ask, sender: str) -> list[Does]:
        refused = ask.with_home and len(self.clients.sessions) >= self.params.clients.sessions_max
        for name, made in ask.subscriptions:
            entry = self.brokers.directory.entries.get(name)
            refused = refused or entry is None or entry.made != made
            refused = refused or (entry is not None and self._refuses(entry.subscription))
        if refused:
            return self.brokers.say(now_us, sender, Refuse(ask.client, ask.move))
        self.arrivals[(ask.client, sender)] = Arrival(ask, sender, now_us)
        return self.brokers.say(now_us, sender, Agree(ask.client, ask.move))

    def _refuses(self, subscription: Subscription) -> bool:
        return refused_by(subscription, self.space, self.params) is not None

    def cancelled(self, cancel: Cancel, sender: str) -> list[Does]:
        arrival = self.arrivals.get((cancel.client, sender))
        if arrival is not None and arrival.ask.move == cancel.move:
            del self.arrivals[(cancel.client, sender)]
        return []

    def put_together(self, now_us: int, part: HandoffPart, sender: str) -> list[Does]:
        """A piece of a handoff has come."""
        arrival = self.arrivals.get((part.client, sender))
        if arrival is None:
            return [Note("handoff_unreadable", part.client)]
        pieces = arrival.pieces = arrival.pieces or Pieces(part)
        if not pieces.add(part):
            del self.arrivals[(part.client, sender)]
            return [Note("handoff_unreadable", part.client)]
        if part.left:
            return []
        handoff = pieces.whole()
        return (
            [Note("handoff_unreadable", part.client)] if handoff is None else self.taken_over(now_us, handoff, sender)
        )

    def taken_over(self, now_us: int, handoff: Handoff, sender: str) -> list[Does]:
        """Step 8."""
        arrival = self.arrivals.pop((handoff.client, sender), None)
        effects: list[Does] = []
        for broker in handoff.told:
            # Whoever knows of these must hear of it when they move again; one that was given up, when it returns.
            effects += [] if broker in self.brokers.flows.lost else self.acquaintance.meet(now_us, broker)
        for state in handoff.posts:
            effects += self._install(now_us, state, handoff, arrival.missed if arrival is not None else 0)
        if handoff.session is not None and not self._has(handoff.client, handoff.session):
            session = session_from(handoff.client, handoff.session, now_us, self.params.clients)
            # Where no address is known, the client was beside its last home broker.
            session.address = session.address or ClientAddress(sender, 0)
            effects += [*self.clients.arrived(now_us, session), *self.losses.complete(now_us, handoff.client)]
        for each in arrival.buffered if arrival is not None else []:
            match each:
                case Retire():
                    effects += self.retire(now_us, each)
                case (Modulated() | SwitchedOff()) as modulated, origin:
                    effects += self.modulated(now_us, modulated, origin)
                case Routed() as routed, address, origin:
                    effects += self.route(now_us, routed, address, origin)
        return effects

    def _has(self, client: str, state: HomeState) -> bool:
        """Whether that session has been here already: a broker that gave this one up may say things twice."""
        known = self.clients.sessions.get(client)
        return known is not None and known.born == state.born and known.moves > state.moves

    def _install(self, now_us: int, state: PostState, handoff: Handoff, missed: int) -> list[Does]:
        home = self.host if handoff.session is not None else state.home
        name = state.subscription.id
        entry = self.brokers.directory.entries.get(name)
        if self.clients.has_post(name, state.made) or (
            entry is not None and (entry.made != state.made or entry.place != self.host)
        ):
            # There is a later post of the subscription, or this one has been here already.
            return []
        try:
            post = self.clients.posts[name] = post_from(
                state, home, now_us, self.space, self.params, self.clients.gauge
            )
        except BadModulator as problem:
            refused = Send(handoff.client, Refused(name, str(problem)))
            return [Note("modulator_refused", name), *([refused] if home == self.host else [])]
        post.missed += missed
        effects: list[Does] = [*post.troubles()]
        self.brokers.news[name] = (now_us, handoff.informed)
        if entry is None:
            # This broker has crashed since it agreed. Versions are no later than the clock, or by a few.
            self.brokers.directory.enrol(
                Enrol(state.subscription, self.host, max(now_us, state.made + 1), state.made)
            )
        else:
            for broker in self.brokers.told:
                effects += self.brokers.say(now_us, broker, entry) if broker not in handoff.told else []
        return effects

    # Events, which may be for what is here, or for what is to come.

    def route(self, now_us: int, routed: Routed, address: Address, sender: str) -> list[Does]:
        arrival = self._coming(address.subscription_id, address.made)
        if arrival is None:
            return self.clients.work(now_us, routed, address, sender)
        return self._buffer(arrival, (routed, address, sender))

    def modulated(self, now_us: int, modulated: Modulated | SwitchedOff, sender: str) -> list[Does]:
        session = self.clients.sessions.get(modulated.client)
        if session is None or session.post_of(modulated.subscription_id) != modulated.made:
            # An earlier session of the client may still be here.
            for arrival in self.arrivals.values():
                if arrival.ask.client == modulated.client and arrival.ask.with_home:
                    return self._buffer(arrival, (modulated, sender))
        return self.clients.deliver(now_us, modulated, sender)

    def retire(self, now_us: int, retire: Retire) -> list[Does]:
        name, made = retire.subscription_id, retire.made
        if self.acquaintance.departing.follows(retire):
            return []
        arrival = self._coming(name, made)
        return self.clients.retire(now_us, name, made) if arrival is None else self._buffer(arrival, retire)

    def _coming(self, name: str, made: int) -> Arrival | None:
        if self.clients.has_post(name, made):
            return None
        return next((each for each in self.arrivals.values() if (name, made) in each.ask.subscriptions), None)

    def _buffer(self, arrival: Arrival, each: Buffered) -> list[Does]:
        if len(arrival.buffered) >= self.params.clients.counterpart_events_max and not isinstance(each, Retire):
            arrival.missed += 1
            return [Note("arrival_overflow", arrival.ask.client)]
        arrival.buffered.append(each)
        return []

    def bereave(self, now_us: int, broker: str) -> list[Does]:
        """A broker is given up, or has crashed: nothing can come from it."""
        effects: list[Does] = []
        for key in [each for each in self.arrivals if each[1] == broker]:
            effects += self._give_up(now_us, key)
        return effects

    def _give_up(self, now_us: int, key: tuple[str, str]) -> list[Does]:
        """What will never come, and others believe to be here, is gone."""
        ask = self.arrivals.pop(key).ask
        effects: list[Does] = [Note("arrival_given_up", ask.client)]
        for name, made in ask.subscriptions:
            entry = self.brokers.directory.entries.get(name)
            if entry is not None and entry.place == self.host and not self.clients.has_post(name, made):
                effects += [*self.clients.retire(now_us, name, made), *self.losses.lose(now_us, name, made)]
        return effects

    def tend(self, now_us: int) -> list[Does]:
        """Nobody waits for ever for a broker that is gone."""
        effects: list[Does] = []
        age_us = microseconds(self.params.clients.counterpart_age_s_max)
        for key, arrival in list(self.arrivals.items()):
            if now_us - arrival.since_us > age_us:
                effects += self._give_up(now_us, key)
        return effects
