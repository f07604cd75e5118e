"""Network namespaces of Linux: each is a machine of its own as far as sockets can tell.

A namespace's name carries the process that made it. They are removed when a test is over, and what a killed process
left behind is removed by the next one. Making them needs root; tests skip where that is missing.
"""

import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

Answer = TypeVar("Answer")
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IS_TAP, NO_PACKET_INFO = 0x0002, 0x1000
FOLDER = Path("/run/netns")
OURS = re.compile(r"rcast-(\d+)-.*")


def why_not() -> str | None:
    """Why namespaces cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command `ip`"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    tried = subprocess.run(["ip", "netns", "add", f"rcast-{os.getpid()}-try"], capture_output=True, text=True)
    if tried.returncode:
        return f"network namespaces cannot be made here: {tried.stderr.strip()}"
    ip("netns", "del", f"rcast-{os.getpid()}-try")
    return None


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def enter(namespace: str) -> None:
    """The calling thread, and nothing else of the process, is in that namespace from now on."""
    descriptor = os.open(FOLDER / namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    finally:
        os.close(descriptor)


def inside(namespace: str, act: Callable[[], Answer]) -> Answer:
    """What `act` answers there."""
    answers: list[Answer] = []

    def work() -> None:
        enter(namespace)
        answers.append(act())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return answers[0]


def remove_leftovers() -> None:
    for name in sorted(each.name for each in FOLDER.glob("rcast-*")):
        found = OURS.fullmatch(name)
        if found is not None and not Path("/proc", found[1]).exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Machines:
    """A namespace for each name, with an Ethernet card that is a file of this process: whoever reads and writes those
    files is the air between them."""

    def __init__(self, names: list[str]) -> None:
        remove_leftovers()
        self.namespaces = {name: f"rcast-{os.getpid()}-{name}" for name in names}
        self.cards: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            for number, (name, namespace) in enumerate(self.namespaces.items(), 1):
                self._make(name, namespace, f"10.77.{number // 250}.{number % 250 + 1}/16")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self, name: str, namespace: str, address: str) -> None:
        ip("netns", "add", namespace)
        self.cards[name] = inside(namespace, open_card)
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", namespace, "addr", "add", address, "dev", "air0")
        ip("-n", namespace, "link", "set", "air0", "up")
        ip("-n", namespace, "route", "add", "224.0.0.0/4", "dev", "air0")

    def _remove(self) -> None:
        for card in self.cards.values():
            os.close(card)
        self.cards.clear()
        for namespace in self.namespaces.values():
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


def open_card() -> int:
    """A TAP device in the namespace of the calling thread."""
    card = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(card, TUNSETIFF, struct.pack("16sH22x", b"air0", IS_TAP | NO_PACKET_INFO))
    except OSError:
        os.close(card)
        raise
    return card
