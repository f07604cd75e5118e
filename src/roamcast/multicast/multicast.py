"""The air of a live node: UDP multicast on the interfaces of its machine (L1, S7).

A message to a group goes to the group's address, one without a group to 239.0.0.0, which every node hears; the
discovery group of proximities is 239.0.0.1. Groups are joined and left as the node says. Datagrams are sealed and
opened by `sealing.py`; whatever is wrong with one is counted, and nothing else happens.

Interfaces come and go (a phone changes its network): they are looked at again from time to time, and all groups are
joined anew when they have changed. A group for which there is no socket, or no room, is waited for: it is tried again
then, and when another one is left.
"""

import asyncio
from collections.abc import Callable
from random import Random

from roamcast.multicast.drops import Dropped, Drops
from roamcast.multicast.interfaces import BadInterface, Interface, chosen_interfaces
from roamcast.multicast.keys import PREPARED_MAX
from roamcast.multicast.sealing import Heard, Seals
from roamcast.multicast.sockets import Members, Outlet, Receiver
from roamcast.node.boundary import Broadcast

EVERYBODY = 0
"""The group of frames without one."""
PORT = 27_239
GROUPS_MAX = 2_000
"""That a node is in; so many more may wait to be joined."""
DELAYED_MAX = 1_024
"""Frames that wait for their jitter; further ones leave at once."""
PREPARED_MIN = 48
"""With fewer prepared signatures than this, more are made."""
PREPARED_AT_ONCE = 4
PREPARE_PAUSE_S = 0.001


class CannotMulticast(Exception):
    """The port or the network cannot be used; the message says why."""


class MulticastAir:
    def __init__(
        self,
        seals: Seals,
        heard: Callable[[Heard], None],
        now_us: Callable[[], int],
        rng: Random,
        *,
        port: int = PORT,
        wanted: tuple[str, ...] = (),
        hops_max: int = 1,
        prepares: bool = False,
    ) -> None:
        """On a running loop. `heard` gets what other nodes say, `wanted` names interfaces, `hops_max` is how many
        routers a frame may pass plus one, and `prepares` whether signatures are prepared."""
        self.seals = seals
        self.heard = heard
        self.now_us = now_us
        self.rng = rng
        self.port = port
        self.wanted = wanted
        self.hops_max = hops_max
        self.prepares = prepares
        self.loop = asyncio.get_running_loop()
        self.drops = Drops()
        self.sent = self.taken = self.refused_groups = 0
        self.interfaces: list[Interface] = []
        self._outlets: list[Outlet] = []
        self._receiver: Receiver | None = None
        self._members: list[Members] = []
        """The receiver first, then those that only are in groups."""
        self._joined: dict[int, list[Members]] = {}
        """By group, which sockets are in it: more than one where they are full, none where it could not be joined."""
        self._lacking: dict[int, list[Interface]] = {}
        """By group that is joined, on which interfaces it is not yet, since sockets or memberships had run out."""
        self._crowded: dict[int, None] = {}
        """Groups that wait for others to be left."""
        self._delayed: dict[asyncio.TimerHandle, None] = {}
        self._preparing: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Raises `CannotMulticast`, or `BadInterface` for one that is not there."""
        self._use(self._wanted_interfaces())
        self.join(EVERYBODY)
        if self.prepares:
            self._prepare_later()

    def close(self) -> None:
        for handle in self._delayed:
            handle.cancel()
        self._delayed.clear()
        if self._preparing is not None:
            self._preparing.cancel()
        self._close_sockets()
        for groups in (self._joined, self._lacking, self._crowded):
            groups.clear()

    def refresh(self) -> bool:
        """Looks at the interfaces again; whether they have changed. Raises `CannotMulticast` where they cannot be
        used yet, and tries again the next time."""
        try:
            found = self._wanted_interfaces()
        except BadInterface:
            # One that was named has gone, or has another address. It is waited for with what there is.
            found = self.interfaces
        if found == self.interfaces:
            self._join_waiting()
            return False
        self._joined = {group: [] for group in self._joined}
        self._lacking.clear()
        self._use(found)
        for group in self._joined:
            self._joined[group] = self._members_of(group)
        return True

    # What the node wants.

    def join(self, group: int) -> None:
        if group in self._joined or group in self._crowded:
            return
        if len(self._joined) < GROUPS_MAX:
            self._joined[group] = self._members_of(group)
            return
        self.refused_groups += 1
        if len(self._crowded) < GROUPS_MAX:
            self._crowded[group] = None

    def leave(self, group: int) -> None:
        self._crowded.pop(group, None)
        self._lacking.pop(group, None)
        for member in self._joined.pop(group, ()):
            member.leave(group)
            if not member.groups and member is not self._receiver:
                self._members.remove(member)
                member.close()
        self._hear()
        self._join_waiting()

    def _join_waiting(self) -> None:
        """Where one cannot be joined, the next cannot either: so this costs little while there is no room."""
        for group in list(self._lacking):
            self._joined[group] = self._members_of(group)
            if group in self._lacking:
                return
        while self._crowded and len(self._joined) < GROUPS_MAX and not self._lacking:
            group = next(iter(self._crowded))
            del self._crowded[group]
            self.join(group)

    def broadcast(self, data: bytes, said: Broadcast) -> int:
        """Sends a message in the codec's bytes; answers how many there are in its datagram, 0 if there is none."""
        group = EVERYBODY if said.group is None else said.group
        try:
            datagram = self.seals.seal(data, group, said.message)
        except Dropped as dropped:
            self.drops.count(dropped.reason, dropped.detail)
            return 0
        if said.jitter_us > 0 and len(self._delayed) < DELAYED_MAX:
            self._delay(datagram, group, said)
        else:
            self._send(datagram, group, said.priority)
        if self.prepares and self._preparing is None and self.seals.identity.prepared < PREPARED_MIN:
            self._prepare_later()
        return len(datagram)

    def greet(self) -> int:
        """Asks the nodes that this one hears for tags, if that is due; answers how many bytes that takes."""
        datagram = self.seals.greeting(self.now_us())
        if datagram is None:
            return 0
        self._send(datagram, EVERYBODY, 0)
        return len(datagram)

    def _delay(self, datagram: bytes, group: int, said: Broadcast) -> None:
        def due() -> None:
            self._delayed.pop(handle, None)
            self._send(datagram, group, said.priority)

        handle = self.loop.call_later(self.rng.uniform(0, said.jitter_us) / 1e6, due)
        self._delayed[handle] = None

    def _send(self, datagram: bytes, group: int, priority: int) -> None:
        self.sent += 1
        if not self._outlets:
            self.drops.count("unsendable")
        for outlet in self._outlets:
            outlet.send(datagram, group, priority)

    def _prepare_later(self) -> None:
        """Signatures are prepared a few at a time and with pauses between, so that nothing has to wait for it."""
        self._preparing = self.loop.call_later(PREPARE_PAUSE_S, self._prepare)

    def _prepare(self) -> None:
        identity, self._preparing = self.seals.identity, None
        before = identity.prepared
        identity.prepare(PREPARED_AT_ONCE)
        if before < identity.prepared < PREPARED_MAX:
            self._prepare_later()

    # What the network brings.

    def take(self, datagram: bytes) -> None:
        """Any bytes whatever: they become a message, or are counted."""
        try:
            header = self.seals.header(datagram)
            if header.group not in self._joined:
                raise Dropped("not_joined")
            heard = self.seals.open(self.now_us(), datagram, header)
        except Dropped as dropped:
            self.drops.count(dropped.reason, dropped.detail)
            return
        self.taken += 1
        if heard is not None:
            self.heard(heard)

    # Sockets.

    def _wanted_interfaces(self) -> list[Interface]:
        """Raises `BadInterface`, and `CannotMulticast` where they cannot be asked for: that takes a socket too."""
        try:
            return chosen_interfaces(self.wanted)
        except OSError as problem:
            raise CannotMulticast(f"interfaces: {problem.strerror or problem}") from problem

    def _use(self, interfaces: list[Interface]) -> None:
        self._close_sockets()
        try:
            for interface in interfaces:
                self._outlets.append(Outlet(interface, self.port, self.hops_max, self.loop, self.drops))
            self._receiver = Receiver(self.port, self.loop, self.take)
            self._members = [self._receiver]
            self.interfaces = interfaces
        except OSError as problem:
            self._close_sockets()
            raise CannotMulticast(f"UDP port {self.port}: {problem.strerror or problem}") from problem

    def _members_of(self, group: int) -> list[Members]:
        """Joins a group on all interfaces where it is not yet, with as many sockets as that takes."""
        lacked = self._lacking.pop(group, None)
        left = self.interfaces if lacked is None else lacked
        for member in self._members:
            left = member.join(group, left)
        while left:
            try:
                member = Members()
            except OSError:
                break
            left = member.join(group, left)
            if not member.groups:
                member.close()
                break
            self._members.append(member)
        if left:
            self._lacking[group] = left
            self.refused_groups += lacked is None
        self._hear()
        return [member for member in self._members if group in member.groups]

    def _hear(self) -> None:
        """The receiver hears what the others are in only if it hears everything."""
        if self._receiver is not None:
            self._receiver.hear_all(len(self._members) > 1)

    def _close_sockets(self) -> None:
        for outlet in self._outlets:
            outlet.close()
        for member in self._members:
            member.close()
        self._outlets, self._members, self._receiver, self.interfaces = [], [], None, []
