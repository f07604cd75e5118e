"""Applications of a scenario: `file.py:Class`, a Python file whose class has a `start(port)`."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from roamcast.node.port import Application, Port


class BadApplication(ValueError):
    """An application that cannot be loaded; the message names the file and what is missing."""


class ApplicationFailed(Exception):
    """An application raised an exception of its own; the message says where and when, the cause is the exception."""


def watched(host: str, now_us: int, action: Callable[[], None]) -> None:
    """Calls into an application, and says on which host and when, if that fails."""
    try:
        action()
    except Exception as problem:
        raise ApplicationFailed(
            f"the application on '{host}' failed at {now_us / 1e6:.3f} s: {type(problem).__name__}: {problem}"
        ) from problem


def begin(make_application: Callable[[], Application], port: Port) -> None:
    make_application().start(port)


def load_application(spec: str) -> Callable[[], Application]:
    """What makes one application for each host. The file is run once, as any module is."""
    file, colon, name = spec.rpartition(":")
    path = Path(file)
    if not colon:
        raise BadApplication(f"application '{spec}': say which class, as in file.py:Class")
    if not path.is_file():
        raise BadApplication(f"application '{spec}': there is no file '{file}'")
    module_name = f"roamcast_application_{path.stem}"
    loading = importlib.util.spec_from_file_location(module_name, path)
    if loading is None or loading.loader is None:
        raise BadApplication(f"application '{spec}': '{file}' is not a Python file")
    module = importlib.util.module_from_spec(loading)
    sys.modules[module_name] = module
    try:
        loading.loader.exec_module(module)
    except Exception as problem:
        raise BadApplication(f"application '{spec}': {type(problem).__name__}: {problem}") from problem
    made: Callable[[], Application] | None = getattr(module, name, None)
    if made is None or not callable(getattr(made, "start", None)):
        raise BadApplication(f"application '{spec}': '{file}' has no class '{name}' with a method start(port)")
    return made
