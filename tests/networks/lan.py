"""Machines in namespaces, each with a cable to one switch. Any of the cables can be pulled."""

import os
import subprocess
from types import TracebackType
from typing import Self

from tests.networks.namespaces import enter, ip, remove_leftovers


class Lan:
    """`here` is where the process itself is, for good: its main thread, and what that starts."""

    def __init__(self, names: list[str]) -> None:
        self.here = f"rcast-{os.getpid()}-hub"
        self.names = names

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            ip("netns", "add", self.here)
            ip("-n", self.here, "link", "set", "lo", "up")
            ip("-n", self.here, "link", "add", "switch", "type", "bridge")
            ip("-n", self.here, "addr", "add", "10.77.0.1/16", "dev", "switch")
            ip("-n", self.here, "link", "set", "switch", "up")
            for name in self.names:
                self._add(name)
            enter(self.here)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, name: str) -> str:
        return f"10.77.0.{self.names.index(name) + 2}"

    def within(self, name: str) -> tuple[str, ...]:
        """What runs a command on that machine."""
        return ("ip", "netns", "exec", self._namespace(name))

    def cut(self, name: str) -> None:
        """Nobody is told: what is sent to it, or by it, is lost."""
        ip("-n", self.here, "link", "set", f"to-{name}", "down")

    def heal(self, name: str) -> None:
        ip("-n", self.here, "link", "set", f"to-{name}", "up")

    def _namespace(self, name: str) -> str:
        return f"rcast-{os.getpid()}-{name}"

    def _add(self, name: str) -> None:
        machine = self._namespace(name)
        ip("netns", "add", machine)
        ip("-n", machine, "link", "set", "lo", "up")
        cable = ("type", "veth", "peer", "name", "eth0", "netns", machine)
        ip("-n", self.here, "link", "add", f"to-{name}", *cable)
        ip("-n", self.here, "link", "set", f"to-{name}", "master", "switch", "up")
        ip("-n", machine, "addr", "add", f"{self.address(name)}/16", "dev", "eth0")
        ip("-n", machine, "link", "set", "eth0", "up")

    def _remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self._namespace(name)], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.here], capture_output=True)
