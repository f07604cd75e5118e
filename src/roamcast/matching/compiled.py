"""The compiled kernel, loaded when it is first used: numba takes a second and a hundred megabytes."""

from collections.abc import Callable
from functools import cached_property

from roamcast.matching.layout import Long, Whole


class Compiled:
    """The functions of `kernel.py`."""

    @cached_property
    def search(self) -> Callable[[Long], None]:
        from roamcast.matching.kernel import search_table

        return search_table

    @cached_property
    def ordered(self) -> Callable[[Whole, int], tuple[Whole, Whole]]:
        from roamcast.matching.kernel import ordered

        return ordered

    @cached_property
    def move(self) -> Callable[[Long], None]:
        from roamcast.matching.kernel import move_table

        return move_table


KERNEL = Compiled()
