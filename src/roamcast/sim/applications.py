"""Applications of a scenario: `file.py:Class`, a Python file whose class has a `start(port)`."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from roamcast.node.port import Application


class BadApplication(ValueError):
    """An application that cannot be loaded; the message names the file and what is missing."""


def load_application(spec: str) -> Callable[[], Application]:
    """What makes one application for each host. The file is run once, as any module is."""
    file, colon, name = spec.rpartition(":")
    path = Path(file)
    if not colon or not path.is_file():
        raise BadApplication(f"application '{spec}': give file.py:Class; there is no file '{file or spec}'")
    module_name = f"roamcast_application_{path.stem}"
    loading = importlib.util.spec_from_file_location(module_name, path)
    if loading is None or loading.loader is None:
        raise BadApplication(f"application '{spec}': '{file}' is not a Python file")
    module = importlib.util.module_from_spec(loading)
    sys.modules[module_name] = module
    loading.loader.exec_module(module)
    made: Callable[[], Application] | None = getattr(module, name, None)
    if made is None or not callable(getattr(made, "start", None)):
        raise BadApplication(f"application '{spec}': '{file}' has no class '{name}' with a method start(port)")
    return made
