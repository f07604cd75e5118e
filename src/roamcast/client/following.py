"""A client that tells its broker where it is, by a source of locations (L4).

Reports are made as fixes come: while a broker cannot be reached only the newest fix is kept. A fix that
the broker can predict from the last report is not sent (`movement/dead_reckoning.py`). When the position is lost, the
broker is told so that nobody believes the client to be where it was.
"""

import asyncio
from contextlib import aclosing
from typing import Protocol

from roamcast.client.errors import ClientError, PublicationRefused
from roamcast.model.values import Point, Velocity
from roamcast.movement.clean import Cleaner, Reason
from roamcast.movement.dead_reckoning import DeadReckoning
from roamcast.movement.fix import Fix, Source
from roamcast.movement.following import positions


class Mover(Protocol):
    """Whose position it is."""

    async def move(self, position: Point, *, velocity: Velocity | None) -> None: ...
    async def lose_position(self) -> None: ...


class Following:
    """Begins at once, on the running event loop."""

    def __init__(self, mover: Mover, source: Source, cleaner: Cleaner, reckoning: DeadReckoning) -> None:
        self.reports = 0
        self.refused = 0
        """Reports that the broker did not take, such as a longitude where it has metres."""
        self.problem: Exception | None = None
        """Why the source ended, if that was a mistake."""
        self.position: Point | None = None
        """What the source said last; None while it does not know."""
        self.refusal = ""
        """Why the broker takes none, by the first that it did not: it may name the place, and so differ for each."""
        self._is_placed = False
        """Whether the broker has a position."""
        self._mover = mover
        self._source = source
        self._cleaner = cleaner
        self._reckoning = reckoning
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def counts(self) -> dict[Reason, int]:
        """What came of the source's fixes."""
        return self._cleaner.counts

    def missing(self) -> str | None:
        """Why the broker does not know where the client is, in words; None if it does, or will in a moment."""
        if self.problem is not None:
            return f"no position: the source of locations failed: {self.problem}"
        if self._task.done():
            return "no position any more: the source of locations has ended"
        if self.position is None:
            from roamcast.movement.waiting import why_no_position  # it knows gpsd

            return f"waiting for a position: {why_no_position(self._source, self._cleaner)}"
        if self.refusal and not self._is_placed:
            return f"no position at the broker, which does not take it: {self.refusal}"
        return None

    async def ended(self) -> None:
        """Returns when the source has no more, or the client has left."""
        await asyncio.wait([self._task])

    async def stop(self) -> None:
        self._task.cancel()
        await self.ended()

    async def _run(self) -> None:
        try:
            await self._follow()
        except ClientError:
            # The client has left, and whoever uses it is told by itself.
            return
        except Exception as problem:
            self.problem = problem

    async def _follow(self) -> None:
        async with aclosing(positions(self._source, self._cleaner)) as found:
            async for fix in found:
                self.position = None if fix is None else fix.point
                if fix is None or self._reckoning.is_news(fix):
                    await self._tell(fix)

    async def _tell(self, fix: Fix | None) -> None:
        clock, began_s = asyncio.get_running_loop().time, asyncio.get_running_loop().time()
        try:
            if fix is None:
                await self._mover.lose_position()
            else:
                await self._mover.move(fix.point, velocity=fix.velocity)
            # A report that waited for a connection is carried forward from when it came.
            self._reckoning.told(fix, clock() - began_s)
            self.reports += 1
            self._is_placed = fix is not None
            if fix is not None:
                self.refusal = ""
        except PublicationRefused as problem:
            self.refused += 1
            self.refusal = self.refusal or str(problem)
