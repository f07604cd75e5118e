"""How much a client may ask for, as buckets of tokens without a clock, and how many may be connected.

A bucket may go into debt: a message that is larger than the bucket is taken whole, and then nothing for as long as it
takes to pay it off. So a limit slows a client down, by not reading from it, and never breaks a message.
"""

import ipaddress
from functools import lru_cache

from msgspec import Struct

from roamcast.mqtt.reasons import Reason
from roamcast.server.security.verdicts import ALLOWED, Verdict

SECOND_US = 1_000_000


class RateLimits(Struct, frozen=True, forbid_unknown_fields=True):
    messages_per_s: float = 1_000.0
    """Of one client; 0 in this and the following means no limit."""
    bytes_per_s: float = 4_000_000.0
    """What one client may send, in payloads."""
    subscribes_per_s: float = 100.0
    """Topic filters in SUBSCRIBE and UNSUBSCRIBE of one client."""
    connects_per_s: float = 20.0
    """New connections from one address."""
    burst_s: float = 5.0
    """For how many seconds what was not used is saved up."""
    connections_max: int = 10_000
    connections_per_address_max: int = 2_000
    addresses_max: int = 100_000
    """Of how many addresses the rate of connections is remembered."""

    def __post_init__(self) -> None:
        for name in ("messages_per_s", "bytes_per_s", "subscribes_per_s", "connects_per_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; give a rate of 0 (no limit) or more")
        if not 0 < self.burst_s < float("inf"):
            raise ValueError(f"burst_s is {self.burst_s}; give seconds above 0")
        for name in ("connections_max", "connections_per_address_max", "addresses_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")


class Bucket:
    """Full at first. A rate of 0 is no limit."""

    __slots__ = ("_per_us", "_since_us", "_size", "_tokens")

    def __init__(self, now_us: int, per_s: float, burst_s: float) -> None:
        self._per_us = per_s / SECOND_US
        self._size = max(1.0, per_s * burst_s)
        self._tokens = self._size
        self._since_us = now_us

    def take(self, now_us: int, amount: float = 1.0) -> int:
        """Take it in any case; how many microseconds to wait before taking more, 0 if there is no debt."""
        if self._per_us == 0:
            return 0
        tokens = self._tokens - amount
        if now_us > self._since_us:
            # As `_fill`; this is asked for every message.
            tokens = self._tokens + (now_us - self._since_us) * self._per_us
            tokens = (tokens if tokens < self._size else self._size) - amount
            self._since_us = now_us
        self._tokens = tokens
        return 0 if tokens >= 0 else int(-tokens / self._per_us) + 1

    def allows(self, now_us: int, amount: float = 1.0) -> bool:
        """Take it only if it is there."""
        if self._per_us == 0:
            return True
        self._fill(now_us)
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True

    def full(self, now_us: int) -> bool:
        self._fill(now_us)
        return self._per_us == 0 or self._tokens >= self._size

    def _fill(self, now_us: int) -> None:
        # A clock that was set back fills nothing, and empties nothing.
        if now_us > self._since_us:
            tokens = self._tokens + (now_us - self._since_us) * self._per_us
            self._tokens = tokens if tokens < self._size else self._size
            self._since_us = now_us


class ClientBuckets:
    """Of one client. Each says for how long not to read from it."""

    __slots__ = ("_bytes", "_messages", "_subscribes")

    def __init__(self, limits: RateLimits, now_us: int) -> None:
        self._messages = Bucket(now_us, limits.messages_per_s, limits.burst_s)
        self._bytes = Bucket(now_us, limits.bytes_per_s, limits.burst_s)
        self._subscribes = Bucket(now_us, limits.subscribes_per_s, limits.burst_s)

    def published(self, now_us: int, size_bytes: int, messages: int = 1) -> int:
        wait_us, also_us = self._messages.take(now_us, messages), self._bytes.take(now_us, size_bytes)
        return wait_us if wait_us > also_us else also_us

    def subscribed(self, now_us: int, filters: int) -> int:
        return self._subscribes.take(now_us, filters)


class _Address:
    __slots__ = ("bucket", "connections")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.connections = 0


class Doors:
    """Counts connections, in total and by address; of IPv6 the first 64 bits, which one household has to itself."""

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self._addresses: dict[str, _Address] = {}
        self.connections = 0

    def enter(self, now_us: int, address: str) -> Verdict:
        """Whoever is let in must `leave`."""
        limits = self.limits
        if self.connections >= limits.connections_max:
            return Verdict(Reason.SERVER_BUSY, f"{limits.connections_max} are connected, and more may not")
        key = household(address)
        found = self._addresses.get(key)
        if found is None:
            if len(self._addresses) >= limits.addresses_max:
                self._forget(now_us)
            found = _Address(Bucket(now_us, limits.connects_per_s, limits.burst_s))
            self._addresses[key] = found
        if found.connections >= limits.connections_per_address_max:
            return Verdict(Reason.QUOTA_EXCEEDED, f"{found.connections} are connected from {key}, and more may not")
        if not found.bucket.allows(now_us):
            return Verdict(Reason.CONNECTION_RATE_EXCEEDED, f"too many connections at once from {key}")
        found.connections += 1
        self.connections += 1
        return ALLOWED

    def leave(self, address: str) -> None:
        self.connections -= 1
        self._addresses[household(address)].connections -= 1

    def _forget(self, now_us: int) -> None:
        """Those that nobody is connected from: the rested ones, and if there are none, the longest known half."""
        gone = [key for key, each in self._addresses.items() if each.connections == 0]
        rested = [key for key in gone if self._addresses[key].bucket.full(now_us)]
        for key in rested or gone[: len(gone) // 2 + 1]:
            del self._addresses[key]


@lru_cache(maxsize=4_096)
def household(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
