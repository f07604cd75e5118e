"""Access: which broker a client that moves is linked to, and when it is linked to none.

A client has at most one access link at a time for each rule. By `nearest` it is the one to the nearest host of the
other group, as long as that is within `range_m`; brokers in the middle of the cells of a grid so serve their cells
(M1). By `visits` it stays with a random one for a while, is linked to none for another while, and goes on to the next
(R3). Either way an old link goes without a word, `gap_s` before a new one comes.
"""

from collections.abc import Callable
from random import Random
from typing import Literal

import numpy as np
from msgspec import Struct

from roamcast.sim.amounts import check_period, check_seconds
from roamcast.sim.links import LinkParams
from roamcast.sim.world import World

STAYS_S = (10.0, 60.0)
AWAY_S = (0.0, 0.0)


class AccessRule(Struct, frozen=True, forbid_unknown_fields=True):
    by: str
    """The group of the clients."""
    to: str
    """The group of the brokers."""
    how: Literal["nearest", "visits"] = "nearest"
    delay_ms: float = 2.0
    gap_s: float = 0.0
    """How long a client is without a link between two."""
    range_m: float | None = None
    """nearest: how far a broker may be."""
    every_s: float = 0.1
    """nearest: how often it is looked which one is the nearest."""
    stays_s: tuple[float, float] = STAYS_S
    """visits: how long a client stays with one broker, from and to."""
    away_s: tuple[float, float] = AWAY_S
    """visits: how long it is away in between, from and to."""

    def __post_init__(self) -> None:
        if self.by == self.to:
            raise ValueError(f"by and to are both '{self.by}'; clients and brokers are different groups")
        if not 0 <= self.delay_ms < float("inf"):
            raise ValueError(f"delay_ms is {self.delay_ms}; give 0 or more")
        if self.range_m is not None and not self.range_m > 0:
            raise ValueError(f"range_m is {self.range_m}; give more than 0, or leave it out")
        check_seconds("gap_s", self.gap_s)
        check_period("every_s", self.every_s)
        for name, (low, high) in (("stays_s", self.stays_s), ("away_s", self.away_s)):
            if not 0 <= low <= high < float("inf"):
                raise ValueError(f"{name} is [{low}, {high}]; give from and to, in seconds")
        if self.stays_s[1] <= 0:
            raise ValueError("stays_s is [0, 0]; a client must stay for some time")
        if self.how != "visits" and (self.stays_s != STAYS_S or self.away_s != AWAY_S):
            name = "stays_s" if self.stays_s != STAYS_S else "away_s"
            raise ValueError(f"{name} is for how = 'visits', and this rule goes by '{self.how}'; set how, or drop it")


class Access:
    """Follows one rule."""

    def __init__(
        self, rule: AccessRule, clients: list[str], brokers: list[str], rng_of: Callable[[str], Random]
    ) -> None:
        self.rule = rule
        self.clients = clients
        self.brokers = brokers
        self.rngs = {client: rng_of(client) for client in clients}
        self.at: dict[str, str | None] = dict.fromkeys(clients)
        """Where each client belongs; its link may still be on the way."""
        self._linked: dict[str, str] = {}
        self._moves: dict[str, int] = dict.fromkeys(clients, 0)
        self._visited: dict[str, str] = {}

    def watch(self, world: World) -> None:
        self.world = world
        if self.rule.how == "nearest":
            self._look()
            return
        for client in self.clients:
            self._visit(client)

    # Visits.

    def _visit(self, client: str) -> None:
        rng = self.rngs[client]
        others = [broker for broker in self.brokers if broker != self._visited.get(client)]
        broker = self._visited[client] = rng.choice(others or self.brokers)
        self._go(client, broker)
        self._after(rng.uniform(*self.rule.stays_s), self._leave, client)

    def _leave(self, client: str) -> None:
        away_s = self.rngs[client].uniform(*self.rule.away_s)
        if away_s == 0:
            self._visit(client)
            return
        self._go(client, None)
        self._after(away_s, self._visit, client)

    # The nearest.

    def _look(self) -> None:
        for client, broker in zip(self.clients, self._nearest(), strict=True):
            if broker != self.at[client]:
                self._go(client, broker)
        self._after(self.rule.every_s, self._look)

    def _nearest(self) -> list[str | None]:
        # Loaded here, since most scenarios have no such rule and it takes a while.
        from scipy.spatial import cKDTree

        points = np.array([self._point(broker) for broker in self.brokers])
        asking = np.array([self._point(client) for client in self.clients])
        distances, found = cKDTree(points).query(asking)
        limit_m = float("inf") if self.rule.range_m is None else self.rule.range_m
        return [
            self.brokers[index] if distance <= limit_m else None
            for distance, index in zip(distances.tolist(), found.tolist(), strict=True)
        ]

    def _point(self, host: str) -> tuple[float, float]:
        point = self.world.whereabouts.position(self.world.by_name[host].index, self.world.kernel.now_us)
        return point.x, point.y

    # Links.

    def _go(self, client: str, broker: str | None) -> None:
        before, self.at[client] = self.at[client], broker
        self._moves[client] += 1
        linked = self._linked.pop(client, None)
        if linked is not None:
            self.world.links.cut(client, linked)
        if broker is not None:
            gap_s = self.rule.gap_s if before is not None else 0.0
            self._after(gap_s, self._arrive, client, broker, self._moves[client])

    def _arrive(self, client: str, broker: str, move: int) -> None:
        # It may have gone on before the gap was over.
        if self._moves[client] != move:
            return
        links = self.world.links
        if (client, broker) not in links.between:
            links.add(LinkParams(client, broker, self.rule.delay_ms))
            links.between[(client, broker)].cuts = 1
        links.heal(client, broker)
        self._linked[client] = broker

    def _after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        self.world.kernel.at(self.world.kernel.now_us + round(delay_s * 1e6), action, *arguments)
