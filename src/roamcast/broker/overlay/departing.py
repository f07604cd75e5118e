"""The broker that something leaves: S of the eight steps (`relocation.py`; O4, O6).

It asks D, has the others take the new way, waits until they do, and hands over. Until the others are told it can
still change its mind.
"""

from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.losses import Losses
from roamcast.broker.overlay.messages import (
    Agree,
    Ask,
    Cancel,
    Detour,
    Detoured,
    Handoff,
    PostState,
    Refuse,
    Retire,
    Whereabouts,
)
from roamcast.broker.overlay.moves import Move, Why
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.pieces import cut
from roamcast.broker.overlay.sessions import HomeSession
from roamcast.node.boundary import Does, Note


class Departing:
    def __init__(
        self, host: str, params: OverlayParams, brokers: BrokerManager, clients: ClientManager, losses: Losses
    ) -> None:
        self.host = host
        self.losses = losses
        self.params = params
        self.brokers = brokers
        self.clients = clients
        self.moves: dict[str, Move] = {}
        """By client: one at a time."""
        self._count = 0

    # The three operations of section 3.4.

    def horizontal(self, now_us: int, client: str, to: str, why: Why = "asked") -> list[Does]:
        """The client gets another home broker, and its modulators that are here go with it."""
        session = self.clients.sessions.get(client)
        return [] if session is None else self._start(now_us, client, to, self._posts_here(session), True, why)

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

    def place(self, now_us: int, subscription_id: str, to: str, why: Why = "asked") -> list[Does]:
        """The modulator goes to any broker; its client's home stays."""
        post = self.clients.posts.get(subscription_id)
        if post is None:
            return []
        return self._start(now_us, post.subscription.subscriber, to, ((subscription_id, post.made),), False, why)

    def _posts_here(self, session: HomeSession) -> tuple[tuple[str, int], ...]:
        posts = self.clients.posts
        return tuple(
            (name, posts[name].made)
            for name in session.wanted
            if name in posts and posts[name].made == session.post_of(name)
        )

    # The steps.

    def _start(
        self, now_us: int, client: str, to: str, posts: tuple[tuple[str, int], ...], with_home: bool, why: Why
    ) -> list[Does]:
        if client in self.moves or to == self.host or to not in self.brokers.told:
            return []
        self._count = max(now_us, self._count + 1)
        ask = Ask(client, self._count, posts, with_home)
        session = self.clients.sessions.get(client) if with_home else None
        self.moves[client] = Move(ask, why, to, now_us, 0 if session is None else session.born)
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
        move.told = (*self.brokers.told, self.host)
        move.informed = self._concerned(move)
        move.awaits = set(move.informed)
        entries = self.brokers.directory.entries
        posts = tuple(
            (name, made, entries[name].version + 1) for name, made in move.ask.subscriptions if name in entries
        )
        detour = Detour(agree.client, agree.move, posts, move.ask.with_home, move.to, move.born)
        effects: list[Does] = []
        for broker in move.informed:
            effects += self.brokers.say(now_us, broker, detour)
        return effects

    def _concerned(self, move: Move) -> tuple[str, ...]:
        """Who must take the new way before anything is handed over: the two, brokers with producers (as in the
        paper), and those with whom what moves works together: the home of a post, the posts of a home. What others
        send to where it was is sent on (`client_manager.py`). A light move counts brokers with producers among the
        others, as section 2.4 allows."""
        directory, posts = self.brokers.directory, self.clients.posts
        producers = [] if self._is_light(move) else directory.homes()
        homes = [posts[name].home for name, made in move.ask.subscriptions if self.clients.has_post(name, made)]
        elsewhere = [
            each.place for each in directory.entries.values() if each.subscription.subscriber == move.ask.client
        ]
        concerned = dict.fromkeys([self.host, move.to, *producers, *homes, *elsewhere])
        return tuple(each for each in concerned if each not in self.brokers.flows.lost)

    def _is_light(self, move: Move) -> bool:
        posts = [self.clients.posts.get(name) for name, _ in move.ask.subscriptions]
        return self.params.light_moves and all(post is None or post.is_stateless for post in posts)

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
        if not detoured.known:
            move.untell(sender)
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
                posts.append(post.state())
        session = self._departing(move)
        if session is not None:
            del self.clients.sessions[client]
            self.clients.gone[client] = (now_us, move.to, session.born)
        state = None if session is None else session.home_state()
        handoff = Handoff(client, move.ask.move, tuple(posts), state, move.told, move.informed)
        effects: list[Does] = [Note("handed_over", client), Note("relocated", move.why)]
        known = [] if session is None else self._posts_elsewhere(session, move.to)
        for message in [*known, *cut(handoff), *move.afterwards]:
            effects += self.brokers.say(now_us, move.to, message)
        return effects

    def _posts_elsewhere(self, session: HomeSession, to: str) -> list[Whereabouts]:
        """Where the posts of a session are: its home broker must know, and the next one may not."""
        places = self.clients.places(session)
        entries = self.brokers.directory.entries
        return [
            Whereabouts(place, tuple((each.id, entries[each.id].made, entries[each.id].version) for each in posts))
            for place, posts in places.items()
            if place != to
        ]

    def _departing(self, move: Move) -> HomeSession | None:
        """The session that moves, unless it is over and the client has begun anew."""
        session = self.clients.sessions.get(move.ask.client) if move.ask.with_home else None
        return session if session is not None and session.born == move.born else None

    def bereave(self, now_us: int, broker: str) -> list[Does]:
        """A broker is given up: nobody waits for it, and nothing can go to it."""
        effects: list[Does] = []
        for move in list(self.moves.values()):
            if move.to == broker:
                effects += self._take_back(now_us, move)
            elif move.awaits is not None:
                move.awaits.discard(broker)
                effects += [] if move.awaits else self._hand_over(now_us, move)
        return effects

    def restarted(self, now_us: int, broker: str) -> list[Does]:
        """A broker has crashed: it knows nothing of what moves, and will not say that it takes the new way."""
        effects: list[Does] = []
        for move in [each for each in self.moves.values() if each.awaits is not None]:
            move.untell(broker)
            if move.awaits is not None:
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
            effects += self.losses.renew(now_us, session, list(session.wanted.values()))
        return effects

    def _move(self, client: str, number: int) -> Move | None:
        move = self.moves.get(client)
        return move if move is not None and move.ask.move == number else None

    def leaving(self) -> set[str]:
        """The posts that are on their way elsewhere."""
        moves = [move for move in self.moves.values() if move.awaits is not None]
        leaving = [each for move in moves for each in move.ask.subscriptions]
        return {name for name, made in leaving if self.clients.has_post(name, made)}

    def follows(self, retire: Retire) -> bool:
        """Whether the post is on its way to D, which then hears of this behind the handoff."""
        for move in self.moves.values():
            if move.awaits is not None and (retire.subscription_id, retire.made) in move.ask.subscriptions:
                move.afterwards.append(retire)
                return True
        return False

    def tend(self, now_us: int) -> list[Does]:
        """Nobody waits for ever for an answer."""
        effects: list[Does] = []
        patience_us = microseconds(self.params.handoff_s_max)
        for move in list(self.moves.values()):
            if move.awaits is None and now_us - move.asked_us > patience_us:
                effects += self._call_off(now_us, move)
        return effects
