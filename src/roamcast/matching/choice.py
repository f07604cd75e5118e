"""Which kernel does the work: the compiled one where numba is installed, else numpy's."""

from typing import Protocol

from roamcast.matching import kernel_numpy
from roamcast.matching.layout import Bytes, Doubles, Long, Records, Views, Whole
from roamcast.model.values import BadValue


class Kernel(Protocol):
    NAME: str

    def search(
        self,
        first: int,
        channel_begin: Whole,
        channels: Whole,
        modes: Bytes,
        circles: Doubles,
        attributes: Doubles,
        channel_groups: Whole,
        groups: Records,
        cells: Whole,
        entries: Records,
        heights: Doubles,
        slots: Records,
        clauses: Records,
        flat: bool,
        now_us: int,
        all_issued: bool,
        slack_m: float,
        runs: Long,
        hits: Records,
        views: Views,
    ) -> tuple[int, int, int]: ...

    def ordered(self, numbers: Whole, size: int) -> tuple[Whole, Whole]: ...

    def move(
        self,
        first: int,
        numbers: Whole,
        x: Doubles,
        y: Doubles,
        straight_x: Doubles,
        straight_y: Doubles,
        straight_z: Doubles,
        hosts: Records,
        slots: Records,
        groups: Records,
        entries: Records,
        heights: Doubles,
        flat: bool,
    ) -> tuple[int, int]: ...


def kernel_of(name: str | None = None) -> Kernel:
    """`numba`, `numpy`, or by default the better one that is there."""
    if name not in (None, "numba", "numpy"):
        raise BadValue(f"no matching kernel is called '{name}'; there are numba and numpy")
    if name == "numpy":
        return kernel_numpy
    try:
        from roamcast.matching import kernel
    except ImportError as problem:
        if name == "numba":
            raise BadValue(f"the compiled matching kernel needs numba: {problem}") from problem
        return kernel_numpy
    return kernel
