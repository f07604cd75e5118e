"""Digests (C11): a host that has just entered a region is told what is held there.

All hosts of the region that hear the newcomer could tell it. Each waits a random time, and does not say what it
overhears from another. What was told to a newcomer is not told again to it until it is refreshed.
"""

from random import Random

from roamcast.adhoc.context.held import AnyHeld, HeldEvent, HeldSubscription
from roamcast.adhoc.context.messages import Digest
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.neighbours import Here
from roamcast.model.space import Space
from roamcast.node.boundary import Broadcast, Does, SetTimer
from roamcast.node.recent import Recent


class Digests:
    def __init__(self, params: ContextParams, rng: Random, space: Space) -> None:
        self.params = params
        self.rng = rng
        self.space = space
        self.served = Recent(params.handled_pairs_max)
        self.waiting: dict[str, AnyHeld] = {}

    def saw(self, now_us: int, newcomer: str, rows: list[AnyHeld]) -> list[Does]:
        """A neighbour has entered the regions of these."""
        fresh = [row for row in rows if self.served.add(f"{newcomer}/{row.id}/{row.reach.version}")]
        if not fresh:
            return []
        first = not self.waiting
        self.waiting.update({row.id: row for row in fresh})
        return [self._timer(now_us)] if first else []

    def asked(self, now_us: int, rows: list[AnyHeld]) -> list[Does]:
        """A neighbour does not know these, which are renewed."""
        first = not self.waiting
        self.waiting.update({row.id: row for row in rows})
        return [self._timer(now_us)] if rows and first else []

    def withdrawn(self, row_id: str) -> None:
        """It must not be told any more, not even to whom it was about to be."""
        self.waiting.pop(row_id, None)

    def overheard(self, digest: Digest) -> None:
        for event in digest.events:
            self.waiting.pop(event.event.id, None)
        for subscription in digest.subscriptions:
            self.waiting.pop(subscription.subscription.id, None)

    def fired(self, now_us: int, here: Here) -> list[Does]:
        rows = [row for row in self.waiting.values() if row.lives(now_us)]
        now, later = rows[: self.params.digest_items_max], rows[self.params.digest_items_max :]
        self.waiting = {row.id: row for row in later}
        if not now:
            return []
        digest = Digest(
            here,
            tuple(row.item(now_us, self.space) for row in now if isinstance(row, HeldEvent)),
            tuple(row.item(now_us, self.space) for row in now if isinstance(row, HeldSubscription)),
        )
        return [Broadcast(digest), *([self._timer(now_us)] if later else [])]

    def _timer(self, now_us: int) -> SetTimer:
        return SetTimer("digest", now_us + round(self.rng.uniform(0, self.params.digest_delay_ms) * 1_000))
