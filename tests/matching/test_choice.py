"""The compiled kernel is loaded when it is needed, and nobody waits for it."""

from threading import Event

from roamcast.matching import kernel, kernel_numpy
from roamcast.matching.choice import LoadedLater


def test_first_use_loads_the_compiled_kernel() -> None:
    assert LoadedLater().search is kernel.search


def test_numpy_does_the_work_while_the_compiled_kernel_is_loading() -> None:
    later, loaded = LoadedLater(), Event()
    later.load_soon(lambda: assert_set(loaded))
    assert later.search is kernel_numpy.search
    loaded.set()
    assert later._loading is not None
    later._loading.join()
    assert later.search is kernel.search


def assert_set(event: Event) -> None:
    assert event.wait(60)
