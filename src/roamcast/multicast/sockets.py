"""Multicast sockets: an outlet for each interface, a receiver, and as many members as groups need.

The receiver is bound to the port on all addresses and hears the groups that it joined and no others. Linux lets one
socket join twenty groups, and counts each interface (`net.ipv4.igmp_max_memberships`). A node that is in more has
further sockets that are only members, and its receiver hears whatever this machine has joined: with a receiver for
every twenty groups, each datagram would be offered to all of them, and sending would take the longer the more types a
host announces.
"""

import asyncio
import errno
import heapq
import socket
import struct
from collections.abc import Callable
from functools import lru_cache

from roamcast.multicast.drops import Drops
from roamcast.multicast.frames import FRAME_BYTES_MAX
from roamcast.multicast.interfaces import Interface

FIRST_OCTET = 239
"""Groups are the lower 24 bits of 239.0.0.0/8, addresses that each network gives out as it likes (S7)."""
QUEUE_DATAGRAMS_MAX = 1_024
READ_BATCH = 64
"""So many datagrams are read before the loop does something else."""
RECEIVE_BUFFER_BYTES = 1 << 20
IP_MULTICAST_ALL = 49
"""Of Linux, which Python has no name for: off, a socket hears only the groups that it joined itself."""


@lru_cache(maxsize=4_096)
def group_address(group: int) -> str:
    return f"{FIRST_OCTET}.{group >> 16 & 255}.{group >> 8 & 255}.{group & 255}"


def membership(group: int, interface: Interface) -> bytes:
    return struct.pack("=4s4si", socket.inet_aton(group_address(group)), bytes(4), interface.index)


class Outlet:
    """Sends on one interface; what the kernel does not take at once waits, the urgent in front."""

    def __init__(
        self, interface: Interface, port: int, hops_max: int, loop: asyncio.AbstractEventLoop, drops: Drops
    ) -> None:
        self.interface = interface
        self.port = port
        self.loop = loop
        self.drops = drops
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        own_interface = struct.pack("=4s4si", bytes(4), bytes(4), interface.index)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own_interface)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops_max)
        # Other nodes of the same machine are to hear it too.
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        self._waiting: list[tuple[int, int, str, bytes]] = []
        self._count = 0

    def send(self, datagram: bytes, group: int, priority: int) -> None:
        address = group_address(group)
        if not self._waiting:
            try:
                self.socket.sendto(datagram, (address, self.port))
            except OSError as problem:
                if not self._can_wait(problem):
                    return
            else:
                return
        if len(self._waiting) >= QUEUE_DATAGRAMS_MAX:
            self.drops.count("queue_full")
            return
        if not self._waiting:
            self.loop.add_writer(self.socket, self._drain)
        self._count += 1
        heapq.heappush(self._waiting, (-priority, self._count, address, datagram))

    def _can_wait(self, problem: OSError) -> bool:
        """Whether the kernel may take it later; what it never will is counted."""
        if isinstance(problem, BlockingIOError) or problem.errno == errno.ENOBUFS:
            return True
        self.drops.count("unsendable", problem.strerror or str(problem))
        return False

    def _drain(self) -> None:
        while self._waiting:
            _, _, address, datagram = self._waiting[0]
            try:
                self.socket.sendto(datagram, (address, self.port))
            except OSError as problem:
                if self._can_wait(problem):
                    return
            heapq.heappop(self._waiting)
        self.loop.remove_writer(self.socket)

    def close(self) -> None:
        self.loop.remove_writer(self.socket)
        self.socket.close()


class Members:
    """A socket that is in some groups, each on some interfaces. By itself it hears nothing: it has no port."""

    def __init__(self) -> None:
        self.groups: dict[int, list[Interface]] = {}
        """Where this socket is in each."""
        self._full = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    def join(self, group: int, interfaces: list[Interface]) -> list[Interface]:
        """Answers on which of them this socket is not in the group, since the kernel lets it be in no more."""
        if self._full:
            return interfaces
        joined: list[Interface] = []
        left: list[Interface] = []
        for place, interface in enumerate(interfaces):
            try:
                self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership(group, interface))
            except OSError as problem:
                if problem.errno == errno.ENOBUFS:
                    self._full, left = True, interfaces[place:]
                    break
                # The interface went away; the others are heard.
                continue
            joined.append(interface)
        if joined:
            self.groups[group] = self.groups.get(group, []) + joined
        return left

    def leave(self, group: int) -> None:
        self._full = False
        for interface in self.groups.pop(group):
            self._leave(group, interface)

    def _leave(self, group: int, interface: Interface) -> None:
        try:
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, membership(group, interface))
        except OSError:
            # With the interface the membership went away too.
            return

    def close(self) -> None:
        self.socket.close()


class Receiver(Members):
    """Hears the groups that it joined itself or, if told so, all that anybody on this machine has joined."""

    def __init__(
        self,
        port: int,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[bytes], None],
    ) -> None:
        super().__init__()
        self.loop = loop
        self.take = take
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.hear_all(False)
        try:
            self.socket.bind(("", port))
        except OSError:
            self.socket.close()
            raise
        loop.add_reader(self.socket, self._read)

    def hear_all(self, everything: bool) -> None:
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, everything)

    def _read(self) -> None:
        for _ in range(READ_BATCH):
            try:
                datagram = self.socket.recv(FRAME_BYTES_MAX + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # What the network says of an earlier datagram is of no use here.
                continue
            self.take(datagram)

    def close(self) -> None:
        self.loop.remove_reader(self.socket)
        super().close()
