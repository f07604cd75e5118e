"""A routing protocol for machines that do not all hear each other: what AODV was on the paper's laptops (O8).

Every machine says on the air a few times a second whom it hears, and passes on what it was last told of others. So
all know the whole network, and each gives its kernel the next hop of the shortest path to every other machine. The
kernels forward packets. Whoever has not been heard for a while is heard no more.

It is small because its networks are: with many machines, saying everything each time would fill the air.
"""

import asyncio
import json
import socket
import subprocess
import time
from collections import deque
from pathlib import Path

PORT = 27_240
GROUP = "239.255.0.1"
PERIOD_S = 0.1
PATIENCE_S = 2.5
"""A machine with much else to do may be silent for as long as this."""
ROWS_MAX = 64
CARD = "air0"


def let_forward() -> None:
    """The machine of the calling process or thread passes on packets, and tells nobody of shorter ways: that two
    others are on the same network as it is does not mean that they hear each other."""
    kernel = Path("/proc/sys/net/ipv4")
    (kernel / "ip_forward").write_text("1")
    for card in ("all", "default", CARD):
        for setting in ("send_redirects", "accept_redirects", "rp_filter"):
            (kernel / "conf" / card / setting).write_text("0")


class LinkState(asyncio.DatagramProtocol):
    """On a running loop, in the namespace of its machine."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.rows: dict[str, tuple[int, list[str]]] = {}
        """By machine: the number of its last word that has come here, and whom it heard."""
        self.ways: dict[str, tuple[str, int]] = {}
        """By machine: the next hop, and how many there are."""
        self._heard_s: dict[str, float] = {}
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        let_forward()
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here = socket.inet_aton(self.address)
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + here)
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        ear.bind(("", PORT))
        self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, sock=ear)
        self._say()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()

    def hops(self, address: str) -> int | None:
        """A process on the same machine is as near as one can be."""
        if address == self.address:
            return 1
        way = self.ways.get(address)
        return None if way is None else way[1]

    def _say(self) -> None:
        self._timer = self._loop.call_later(PERIOD_S, self._say)
        now_s = time.monotonic()
        self._heard_s = {each: at_s for each, at_s in self._heard_s.items() if now_s - at_s < PATIENCE_S}
        self._number = max(self._number + 1, time.time_ns() // 1_000)
        self.rows[self.address] = (self._number, sorted(self._heard_s))
        self._find_ways()
        assert self._transport is not None
        self._transport.sendto(json.dumps(self.rows).encode(), (GROUP, PORT))

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        self._heard_s[sender[0]] = time.monotonic()
        for machine, (number, hears) in json.loads(data).items():
            known = self.rows.get(machine)
            if machine != self.address and (known[0] < number if known else len(self.rows) < ROWS_MAX):
                self.rows[machine] = (number, hears)

    def _find_ways(self) -> None:
        ways: dict[str, tuple[str, int]] = {}
        ring = deque([(self.address, "", 0)])
        seen = {self.address}
        while ring:
            machine, first, hops = ring.popleft()
            for other in self.rows.get(machine, (0, []))[1]:
                if other not in seen:
                    seen.add(other)
                    ways[other] = (first or other, hops + 1)
                    ring.append((other, *ways[other]))
        for machine, (first, _) in ways.items():
            if self.ways.get(machine, ("", 0))[0] != first:
                over = () if first == machine else ("via", first)
                subprocess.run(["ip", "route", "replace", machine, *over, "dev", CARD], check=True)
        self.ways = ways
