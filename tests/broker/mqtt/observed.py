"""Observers for tests: one that keeps all it is told, and one that breaks down."""

import inspect
from typing import Any

from roamcast.node.observer import Observer

TOLD = tuple(
    name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if name not in ("fanned_out", "failed")
)
"""All that an observer is told; deliveries one by one."""


class Told(Observer):
    """Keeps what it is told, after the time: by name, and what the call said."""

    def __init__(self) -> None:
        self.all: list[tuple[str, tuple[Any, ...]]] = []
        for name in TOLD:
            setattr(self, name, self._keeping(name))

    def _keeping(self, name: str) -> Any:
        def keep(_: int, *about: Any) -> None:
            self.all.append((name, about))

        return keep

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [about for each, about in self.all if each == name]


class Mistaken(Observer):
    """Breaks down when it is told of one thing, and counts the others."""

    def __init__(self, about: str) -> None:
        self.told: list[str] = []
        self.has_failed = False
        for name in (*TOLD, "fanned_out"):
            setattr(self, name, self._hearing(name, name == about))

    def _hearing(self, name: str, breaks: bool) -> Any:
        def hear(*_: object) -> None:
            self.told.append(name)
            if breaks:
                raise KeyError(name)

        return hear

    def failed(self) -> None:
        self.has_failed = True
