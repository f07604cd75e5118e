"""Relocation of modulators and sessions in the eight steps of section 2.4 (O4, O6).

What moves is a set of a client's posts and, if its home moves too, its session. S is where they are, D where they go.

| step | who | does |
|---|---|---|
| 1 | S | `Ask`s D |
| 2 | D | notes what will come, `Agree`s; from now on it buffers what arrives for that |
| 3 | S | tells every broker that knows of these posts, itself and D among them, to `Detour` |
| 4 | each of them | sends to D from now on, and says so to S and to D (`Detoured`) |
| 5 | S | goes on with what still comes, until all have said so |
| 6 | D | buffers |
| 7 | S | hands everything over with its state (`Handoff`) and forgets it |
| 8 | D | takes it over, then what it has buffered; if it is the home now, it tells the client |

Why nothing is lost: flows keep order, so behind a broker's `Detoured` nothing of it comes to S any more. Why nothing
is doubled or disordered: each event is sent to one of the two; a post takes the events of a producer along their
chain (`posts.py`), so that neither a producer that moves at the same time nor an event that was faster changes the
order, and its output is numbered. Until step 3 S can still change its mind, after it D gets everything, however late.

Every broker may have producers and not all are at the producer's side at each moment, so all of them are told; the
paper tells those with producers.
"""

from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note, Send
from roamcast.protocols.broker.modulators.interface import BadModulator
from roamcast.protocols.broker.overlay.broker_manager import BrokerManager
from roamcast.protocols.broker.overlay.client_manager import ClientManager
from roamcast.protocols.broker.overlay.messages import (
    Address,
    Agree,
    Ask,
    Cancel,
    Detour,
    Detoured,
    Handoff,
    HandoffPart,
    Met,
    Modulated,
    PostState,
    Refuse,
    Refused,
    Retire,
    Routed,
    SessionState,
)
from roamcast.protocols.broker.overlay.moves import Arrival, Buffered, Move
from roamcast.protocols.broker.overlay.params import OverlayParams, microseconds
from roamcast.protocols.broker.overlay.pieces import Pieces, cut
from roamcast.protocols.broker.overlay.posts import post_from, refused_by
from roamcast.protocols.broker.overlay.sessions import HomeSession, session_from


class Relocation:
    def __init__(
        self, host: str, params: OverlayParams, brokers: BrokerManager, clients: ClientManager, space: Space
    ) -> None:
        self.host = host
        self.params = params
        self.brokers = brokers
        self.clients = clients
        self.space = space
        self.moves: dict[str, Move] = {}
        """By client: one at a time."""
        self.arrivals: dict[tuple[str, str], Arrival] = {}
        """By client and the broker it comes from."""
        self._count = 0

    # The three operations of section 3.4.

    def horizontal(self, now_us: int, client: str, to: str) -> list[Does]:
        """The client gets another home broker, and its modulators that are here go with it."""
        session = self.clients.sessions.get(client)
        return [] if session is None else self._start(now_us, client, to, self._posts_here(session), True)

    def upstream(self, now_us: int, subscription_id: str) -> list[Does]:
        """The modulator goes one broker nearer to most of the producers."""
        to = self.upstream_of(subscription_id)
        return [] if to is None else self.place(now_us, subscription_id, to)

    def downstream(self, now_us: int, subscription_id: str) -> list[Does]:
        """The modulator goes one broker nearer to its consumer's home broker."""
        to = self.downstream_of(subscription_id)
        return [] if to is None else self.place(now_us, subscription_id, to)

    def upstream_of(self, subscription_id: str) -> str | None:
        post = self.clients.posts.get(subscription_id)
        steps: dict[str, int] = {}
        for home in self.brokers.directory.homes_of_producers(post.subscription.subscriber) if post else []:
            path = self.brokers.topology.path(home)
            if path is not None and len(path) > 1:
                steps[path[1]] = steps.get(path[1], 0) + 1
        return max(steps, key=lambda broker: (steps[broker], broker), default=None)

    def downstream_of(self, subscription_id: str) -> str | None:
        post = self.clients.posts.get(subscription_id)
        path = None if post is None else self.brokers.topology.path(post.home)
        return None if path is None or len(path) < 2 else path[1]

    def place(self, now_us: int, subscription_id: str, to: str) -> list[Does]:
        """The modulator goes to any broker; its client's home stays."""
        post = self.clients.posts.get(subscription_id)
        if post is None:
            return []
        return self._start(now_us, post.subscription.subscriber, to, ((subscription_id, post.made),), False)

    def _posts_here(self, session: HomeSession) -> tuple[tuple[str, int], ...]:
        posts = self.clients.posts
        return tuple(
            (name, posts[name].made)
            for name in session.subscriptions
            if name in posts and posts[name].made == session.post_of(name)
        )

    # S.

    def _start(
        self, now_us: int, client: str, to: str, posts: tuple[tuple[str, int], ...], with_home: bool
    ) -> list[Does]:
        if client in self.moves or to == self.host or to not in self.brokers.told:
            return []
        self._count = max(now_us, self._count + 1)
        ask = Ask(client, self._count, posts, with_home)
        session = self.clients.sessions.get(client) if with_home else None
        self.moves[client] = Move(ask, to, now_us, 0 if session is None else session.born)
        return self.brokers.say(now_us, to, ask)

    def agreed(self, now_us: int, agree: Agree) -> list[Does]:
        move = self._move(agree.client, agree.move)
        if move is None or move.awaits is not None:
            return []
        if move.ask.with_home:
            session = self.clients.sessions.get(agree.client)
            if session is None or session.born != move.born:
                return self._call_off(now_us, move)
            session.departing = True
        # A post elsewhere sends to the home as well, so its broker must know whether it was met or not.
        entries = self.brokers.directory.entries.values()
        elsewhere = [each.place for each in entries if each.subscription.subscriber == agree.client]
        reachable = [each for each in elsewhere if each not in self.brokers.flows.lost]
        brokers = dict.fromkeys([*self.brokers.told, self.host, *reachable])
        move.awaits = set(brokers)
        detour = Detour(agree.client, agree.move, move.ask.subscriptions, move.ask.with_home, move.to, move.born)
        effects: list[Does] = []
        for broker in brokers:
            effects += self.brokers.say(now_us, broker, detour)
        return effects

    def refused(self, refuse: Refuse) -> list[Does]:
        move = self._move(refuse.client, refuse.move)
        if move is None or move.awaits is not None:
            return []
        del self.moves[refuse.client]
        return [Note("handoff_refused", refuse.client)]

    def _call_off(self, now_us: int, move: Move) -> list[Does]:
        del self.moves[move.ask.client]
        cancel = Cancel(move.ask.client, move.ask.move)
        return [Note("handoff_called_off", move.ask.client), *self.brokers.say(now_us, move.to, cancel)]

    def detoured(self, now_us: int, detoured: Detoured, sender: str) -> list[Does]:
        move = self._move(detoured.client, detoured.move)
        if move is None or move.awaits is None:
            return []
        move.awaits.discard(sender)
        return [] if move.awaits else self._hand_over(now_us, move)

    def _hand_over(self, now_us: int, move: Move) -> list[Does]:
        client = move.ask.client
        del self.moves[client]
        posts: list[PostState] = []
        for name, made in move.ask.subscriptions:
            post = self.clients.posts.get(name)
            # The subscription may have been changed meanwhile, and have another post.
            if post is not None and post.made == made:
                del self.clients.posts[name]
                self.clients.worked += post.taken
                posts.append(post.state())
        session = self._departing(move)
        if session is not None:
            del self.clients.sessions[client]
            self.clients.gone[client] = (now_us, move.to, session.born)
        told = (*self.brokers.told, self.host)
        state = None if session is None else session.state()
        effects: list[Does] = [Note("handed_over", client)]
        for message in [*cut(Handoff(client, move.ask.move, tuple(posts), state, told)), *move.afterwards]:
            effects += self.brokers.say(now_us, move.to, message)
        return effects

    def _departing(self, move: Move) -> HomeSession | None:
        """The session that moves, unless it is over and the client has begun anew."""
        session = self.clients.sessions.get(move.ask.client) if move.ask.with_home else None
        return session if session is not None and session.born == move.born else None

    def bereave(self, now_us: int, broker: str) -> list[Does]:
        """A broker is given up: nobody waits for it, and nothing can go to it or come from it."""
        effects: list[Does] = []
        for client, sender in [each for each in self.arrivals if each[1] == broker]:
            del self.arrivals[(client, sender)]
            effects.append(Note("arrival_given_up", client))
        for move in list(self.moves.values()):
            if move.to == broker:
                effects += self._take_back(now_us, move)
            elif move.awaits is not None:
                move.awaits.discard(broker)
                effects += [] if move.awaits else self._hand_over(now_us, move)
        return effects

    def _take_back(self, now_us: int, move: Move) -> list[Does]:
        """D is gone. After step 3 nothing comes here any more, so all posts begin anew."""
        del self.moves[move.ask.client]
        effects: list[Does] = [Note("handoff_called_off", move.ask.client)]
        if move.awaits is None:
            return effects
        for name, made in move.ask.subscriptions:
            if name in self.clients.posts and self.clients.posts[name].made == made:
                del self.clients.posts[name]
        session = self._departing(move)
        if session is not None:
            session.departing = False
            effects += self.clients.renew(now_us, session, list(session.subscriptions.values()))
        return effects

    def _move(self, client: str, number: int) -> Move | None:
        move = self.moves.get(client)
        return move if move is not None and move.ask.move == number else None

    def leaving(self) -> set[str]:
        """The posts that are on their way elsewhere."""
        moves = [move for move in self.moves.values() if move.awaits is not None]
        leaving = [each for move in moves for each in move.ask.subscriptions]
        return {name for name, made in leaving if self._is_here(name, made)}

    def _is_here(self, name: str, made: int) -> bool:
        return name in self.clients.posts and self.clients.posts[name].made == made

    # Everybody.

    def detour(self, now_us: int, detour: Detour, sender: str) -> list[Does]:
        for name, made in detour.subscriptions:
            self.brokers.directory.moved(name, made, detour.to)
        if detour.with_home:
            for post in self.clients.posts.values():
                # What leaves S itself is S's to the end.
                moving = sender == self.host and (post.subscription.id, post.made) in detour.subscriptions
                if post.subscription.subscriber == detour.client and post.born == detour.born and not moving:
                    post.home = detour.to
        if not detour.move:
            # Word of a home that moved before, from where it was: nobody waits for an answer.
            return []
        detoured = Detoured(detour.client, detour.move)
        return [
            *self.brokers.say(now_us, detour.to, detoured),
            *self.brokers.say(now_us, sender, detoured),
        ]

    # D.

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
            effects += [] if broker in self.brokers.flows.lost else self.meet(now_us, broker)
        for state in handoff.posts:
            effects += self._install(now_us, state, handoff, arrival.missed if arrival is not None else 0)
        if handoff.session is not None and not self._has(handoff.client, handoff.session):
            session = session_from(handoff.client, handoff.session, now_us, self.params.clients)
            effects += self.clients.arrived(now_us, session)
        for each in arrival.buffered if arrival is not None else []:
            match each:
                case Retire():
                    effects += self.retire(now_us, each)
                case Modulated() as modulated, origin:
                    effects += self.modulated(now_us, modulated, origin)
                case Routed() as routed, address, origin:
                    effects += self.route(now_us, routed, address, origin)
        return effects

    def _has(self, client: str, state: SessionState) -> bool:
        """Whether that session has been here already: a broker that gave this one up may say things twice."""
        known = self.clients.sessions.get(client)
        return known is not None and known.born == state.born and known.moves > state.moves

    def _install(self, now_us: int, state: PostState, handoff: Handoff, missed: int) -> list[Does]:
        home = self.host if handoff.session is not None else state.home
        name = state.subscription.id
        entry = self.brokers.directory.entries.get(name)
        if self._is_here(name, state.made) or (
            entry is not None and (entry.made != state.made or entry.place != self.host)
        ):
            # There is a later post of the subscription, or this one has been here already.
            return []
        try:
            post = self.clients.posts[name] = post_from(state, home, now_us, self.space, self.params)
        except BadModulator as problem:
            refused = Send(handoff.client, Refused(name, str(problem)))
            return [Note("modulator_refused", name), *([refused] if home == self.host else [])]
        post.missed += missed
        effects: list[Does] = [*post.troubles()]
        if entry is not None:
            for broker in self.brokers.told:
                effects += self.brokers.say(now_us, broker, entry) if broker not in handoff.told else []
        return effects

    # Events, which may be for what is here, or for what is to come.

    def route(self, now_us: int, routed: Routed, address: Address, sender: str) -> list[Does]:
        arrival = self._coming(address.subscription_id, address.made)
        if arrival is None:
            return self.clients.work(now_us, routed, address, sender)
        return self._buffer(arrival, (routed, address, sender))

    def modulated(self, now_us: int, modulated: Modulated, sender: str) -> list[Does]:
        session = self.clients.sessions.get(modulated.client)
        if session is None or session.post_of(modulated.subscription_id) != modulated.made:
            # An earlier session of the client may still be here.
            for arrival in self.arrivals.values():
                if arrival.ask.client == modulated.client and arrival.ask.with_home:
                    return self._buffer(arrival, (modulated, sender))
        return self.clients.deliver(now_us, modulated, sender)

    def retire(self, now_us: int, retire: Retire) -> list[Does]:
        name, made = retire.subscription_id, retire.made
        for move in self.moves.values():
            if move.awaits is not None and (name, made) in move.ask.subscriptions:
                move.afterwards.append(retire)
                return []
        arrival = self._coming(name, made)
        return self.clients.retire(now_us, name, made) if arrival is None else self._buffer(arrival, retire)

    def _coming(self, name: str, made: int) -> Arrival | None:
        if self._is_here(name, made):
            return None
        return next((each for each in self.arrivals.values() if (name, made) in each.ask.subscriptions), None)

    def _buffer(self, arrival: Arrival, each: Buffered) -> list[Does]:
        if len(arrival.buffered) >= self.params.clients.counterpart_events_max and not isinstance(each, Retire):
            arrival.missed += 1
            return [Note("arrival_overflow", arrival.ask.client)]
        arrival.buffered.append(each)
        return []

    def meet(self, now_us: int, broker: str) -> list[Does]:
        """A broker that was not known: it is told of what is here, and of every change from now on."""
        if broker == self.host or broker in self.brokers.told:
            return []
        if len(self.brokers.told) >= self.params.brokers_max:
            return [Note("broker_refused", broker)]
        self.brokers.flows.found_again(broker)
        self.brokers.told[broker] = None
        return self.introduce(now_us, broker)

    def introduce(self, now_us: int, broker: str) -> list[Does]:
        effects = self.brokers.say(now_us, broker, Met())
        for each in self.clients.introduction(self.leaving()):
            effects += self.brokers.say(now_us, broker, each)
        return effects

    def tend(self, now_us: int) -> list[Does]:
        """Nobody waits for ever for a broker that is gone."""
        effects: list[Does] = []
        patience_us = microseconds(self.params.handoff_s_max)
        for move in list(self.moves.values()):
            if move.awaits is None and now_us - move.asked_us > patience_us:
                effects += self._call_off(now_us, move)
        age_us = microseconds(self.params.clients.counterpart_age_s_max)
        for key, arrival in list(self.arrivals.items()):
            if now_us - arrival.since_us > age_us:
                del self.arrivals[key]
                effects.append(Note("arrival_given_up", arrival.ask.client))
        return effects
