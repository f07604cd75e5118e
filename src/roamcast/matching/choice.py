"""Which kernel does the work: the compiled one; numpy's while that is being loaded, or where it is asked for."""

from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol

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


class LoadedLater:
    """The compiled kernel, loaded with its first use; numpy's does the work while a thread loads it.

    Numba and what was compiled take a second of CPU and 130 MB, and a broker may never ask for it.
    """

    NAME = "numba"

    def __init__(self) -> None:
        self._loading: Thread | None = None

    def __getattr__(self, name: str) -> Any:
        """Only asked until the functions are there."""
        if self._loading is not None:
            return getattr(kernel_numpy, name)
        self._take_over()
        return self.__dict__[name]

    def load_soon(self, warm_up: Callable[[], None]) -> None:
        """Load it in a thread, once."""

        def load() -> None:
            warm_up()
            self._take_over()

        if self._loading is None:
            self._loading = Thread(target=load, name="kernel")
            self._loading.start()

    def _take_over(self) -> None:
        kernel = kernel_of("numba")
        self.__dict__.update(search=kernel.search, ordered=kernel.ordered, move=kernel.move)


LOADED_LATER = LoadedLater()


def kernel_of(name: str | None = None) -> Kernel:
    """`numba` or `numpy`; by default numba, when it is needed."""
    match name:
        case None:
            return LOADED_LATER
        case "numba":
            from roamcast.matching import kernel

            return kernel
        case "numpy":
            return kernel_numpy
        case _:
            raise BadValue(f"no matching kernel is called '{name}'; there are numba and numpy")
