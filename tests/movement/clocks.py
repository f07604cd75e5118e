"""Time for tests of sources: it passes when somebody waits for it, and not otherwise."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from roamcast.movement.fix import Fix, Source

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.now = START_US

    def now_us(self) -> int:
        return self.now

    async def until(self, at_us: int) -> None:
        self.now = max(self.now, at_us)


async def first(source: Source, count: int) -> list[Fix]:
    """The first fixes, or all if there are fewer."""
    found: list[Fix] = []
    fixes = source.fixes()
    assert isinstance(fixes, AsyncGenerator)
    async with aclosing(fixes):
        async for fix in fixes:
            found.append(fix)
            if len(found) == count:
                break
    return found


class Given:
    """A source of these fixes."""

    def __init__(self, *fixes: Fix) -> None:
        self._fixes = fixes

    async def fixes(self) -> AsyncIterator[Fix]:
        for fix in self._fixes:
            yield fix
