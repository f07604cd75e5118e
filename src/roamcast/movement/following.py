"""Yields the newest clean fix of a source, and None while there is no position (L4)."""

import asyncio
from collections.abc import AsyncGenerator

from roamcast.movement.clean import Cleaner
from roamcast.movement.fix import Fix, Source


async def positions(source: Source, cleaner: Cleaner) -> AsyncGenerator[Fix | None, None]:
    """Each fix that the cleaner lets through, as it comes. Whoever is slow gets the newest, not every one: where a
    host was a while ago is of no use. When nothing has come for the cleaner's `gap_us`, and when the source ends,
    there is None once: the position is not known any more. Close it (`contextlib.aclosing`) to let go of the source.
    """
    newest = Newest(source, cleaner)
    reading = asyncio.get_running_loop().create_task(newest.read())
    known = False
    try:
        while not (newest.ended and newest.fix is None):
            fix = await newest.take(cleaner.limits.gap_us / 1e6 if known else None)
            if fix is not None or known:
                yield fix
            known = fix is not None
        if known:
            yield None
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class Newest:
    """The last fix that came, until it is taken."""

    def __init__(self, source: Source, cleaner: Cleaner) -> None:
        self.fix: Fix | None = None
        self.ended = False
        self._source = source
        self._cleaner = cleaner
        self._changed = asyncio.Event()

    async def read(self) -> None:
        try:
            async for raw in self._source.fixes():
                fix = self._cleaner.add(raw)
                if fix is not None:
                    self.fix = fix
                    self._changed.set()
        finally:
            self.ended = True
            self._changed.set()

    async def take(self, patience_s: float | None) -> Fix | None:
        try:
            async with asyncio.timeout(patience_s):
                await self._changed.wait()
        except TimeoutError:
            return None
        self._changed.clear()
        fix, self.fix = self.fix, None
        return fix
