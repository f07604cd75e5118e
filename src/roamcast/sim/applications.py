"""Applications of a scenario: `file.py:Class`, a Python file whose class has a `start(port)`."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

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


class Applications:
    """The applications of one run. A file is run once, as any module is, however many groups of hosts use it; another
    run runs it again, so that nothing is left of the one before."""

    def __init__(self) -> None:
        self.modules: dict[Path, ModuleType] = {}

    def load(self, spec: str) -> Callable[[], Application]:
        """What makes one application for each host."""
        file, colon, name = spec.rpartition(":")
        if not colon:
            raise BadApplication(f"application '{spec}': say which class, as in file.py:Class")
        path = Path(file).resolve()
        if not path.is_file():
            raise BadApplication(f"application '{spec}': there is no file '{file}'")
        if path not in self.modules:
            self.modules[path] = run_file(path, spec)
        made: Callable[[], Application] | None = getattr(self.modules[path], name, None)
        if made is None or not callable(getattr(made, "start", None)):
            raise BadApplication(f"application '{spec}': '{file}' has no class '{name}' with a method start(port)")
        return made


def run_file(path: Path, spec: str) -> ModuleType:
    name = module_name(path)
    loading = importlib.util.spec_from_file_location(name, path)
    if loading is None or loading.loader is None:
        raise BadApplication(f"application '{spec}': '{path.name}' is not a Python file")
    module = importlib.util.module_from_spec(loading)
    # Dataclasses, among others, look up the module of a class while it is being made.
    sys.modules[name] = module
    try:
        loading.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        raise BadApplication(f"application '{spec}': {type(problem).__name__}: {problem}") from problem
    return module


def module_name(path: Path) -> str:
    """Files of one name in different folders are different modules."""
    return f"roamcast_application_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
