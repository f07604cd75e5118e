"""What `roamcast doctor` looks at: whether this machine has what roamcast needs, and what to do where it has not.

Each check does the thing itself, on a small scale, not reading a setting: it sends a datagram and hears it,
syncs a file, opens a port. A check answers with a `Finding`; it never raises, and never takes more than seconds.
"""

import importlib.util
import os
import platform
import resource
import secrets
import shutil
import socket
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from roamcast.extras import EXTRAS, install, installed, missing_of, required
from roamcast.ports import owner_of

State: TypeAlias = Literal["ok", "warn", "fail"]
PYTHON_MIN = (3, 11)
HEARD_S = 1.0
"""So long a datagram of our own may take to come back."""
TEST_GROUP = "239.255.77.1"
"""A group of the range that each site gives out as it likes, and none that nodes use."""
FREE_BYTES_MIN = 64 << 20
FREE_BYTES_LITTLE = 1 << 30
SYNCS = 5
SYNC_SLOW_S = 0.05
FILES_MIN = 256
FILES_FEW = 4_096
YEAR_MIN = 2025


class Finding(Struct, frozen=True):
    name: str
    state: State
    said: str
    advice: str = ""
    """What to do; empty where there is nothing to do."""


Check: TypeAlias = Callable[[], Finding]


def python_check() -> Finding:
    said = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < PYTHON_MIN:
        return Finding("python", "fail", said, "install Python 3.11 or newer")
    return Finding("python", "ok", said)


def packages_check() -> Finding:
    """Those that every installation needs."""
    try:
        names = required()
    except PackageNotFoundError:
        advice = "install it: `make install` in a clone, or `pip install .`"
        return Finding("packages", "warn", "roamcast runs from its source and is not installed", advice)
    missing = [name for name in names if not installed(name)]
    if missing:
        return Finding("packages", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Finding("packages", "ok", f"all {len(names)} are installed")


def extras_check() -> Finding:
    """Which parts of roamcast can run here."""
    try:
        absent = [extra for extra in EXTRAS if missing_of(extra)]
    except PackageNotFoundError:
        return Finding("extras", "warn", "not looked at: roamcast runs from its source", "make install")
    here = ", ".join(extra for extra in EXTRAS if extra not in absent)
    if absent:
        said = f"missing: {', '.join(absent)}; installed: {here or 'none'}"
        return Finding("extras", "warn", said, f"pip install 'roamcast[{','.join(absent)}]'")
    return Finding("extras", "ok", f"{here} are installed")


def java_check() -> Finding:
    """Only what runs on Spark needs it."""
    if importlib.util.find_spec("pyspark") is None:
        return Finding("java", "warn", "not looked at: pyspark is missing", install("spark"))
    from roamcast.spark.session import check_java
    from roamcast.spark.tables import BadPipeline

    try:
        path, major = check_java()
    except BadPipeline as problem:
        said, _, advice = str(problem).partition("\n")
        return Finding("java", "warn", f"audit, pipeline and experiments will not run here: {said}", advice)
    return Finding("java", "ok", f"Java {major} at {path}, for audit, pipeline and experiments")


def port_check(name: str, port: int, option: str) -> Check:
    def check() -> Finding:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trying.bind(("127.0.0.1", port))
                trying.listen(1)
            except PermissionError:
                return Finding(name, "warn", f"port {port} needs more rights", f"give another one: {option}")
            except OSError as problem:
                who = owner_of(port)
                said = f"port {port} is taken{f' by {who}' if who else ''} ({problem.strerror})"
                return Finding(name, "warn", said, f"stop what has it, or give another one: {option}")
        return Finding(name, "ok", f"port {port} is free")

    return check


def loopback_check() -> Finding:
    return multicast("multicast on loopback", "127.0.0.1", "ip link set lo multicast on (as root)")


def network_check() -> Finding:
    """On the interface that leads out."""
    address = outward_address()
    name = "multicast on the network"
    if address is None:
        advice = "nodes still find each other on this machine: roamcast node NAME --interface lo"
        return Finding(name, "warn", "there is no network that leads out of this machine", advice)
    advice = "docs/howto/LAN.md, 'When nothing arrives'; a broker needs no multicast"
    return multicast(name, address, advice)


def outward_address() -> str | None:
    """Of the interface that packets to elsewhere leave by; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(asking.getsockname()[0])


def multicast(name: str, address: str, advice: str) -> Finding:
    """Sends a datagram to a group on this interface, and waits for it to come back."""
    sent = secrets.token_bytes(16)
    began_s = time.monotonic()
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as saying,
        ):
            hearing.bind(("", 0))
            group = socket.inet_aton(TEST_GROUP) + socket.inet_aton(address)
            hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            saying.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            saying.sendto(sent, (TEST_GROUP, hearing.getsockname()[1]))
            while (left_s := began_s + HEARD_S - time.monotonic()) > 0:
                hearing.settimeout(left_s)
                if hearing.recv(64) == sent:
                    took_ms = (time.monotonic() - began_s) * 1e3
                    return Finding(
                        name, "ok", f"a datagram to {TEST_GROUP} by {address} came back in {took_ms:.1f} ms"
                    )
    except TimeoutError:
        pass
    except OSError as problem:
        return Finding(name, "warn", f"a datagram could not be sent by {address}: {problem.strerror}", advice)
    return Finding(name, "warn", f"a datagram to {TEST_GROUP} by {address} did not come back", advice)


def disk_check(directory: Path) -> Check:
    """Where a broker would keep its log: room, and how long it takes until something is really there."""

    def check() -> Finding:
        place = next(each for each in (directory, *directory.absolute().parents) if each.is_dir())
        try:
            free_bytes = shutil.disk_usage(place).free
            sync_s = sorted(synced_s(place) for _ in range(SYNCS))[SYNCS // 2]
        except OSError as problem:
            advice = "give a directory that can be written: --data DIRECTORY"
            return Finding("disk", "fail", f"{place}: {problem.strerror}", advice)
        said = f"{free_bytes / 1e9:,.1f} GB free at {place}; a sync takes {sync_s * 1e3:.1f} ms"
        if free_bytes < FREE_BYTES_MIN:
            return Finding("disk", "fail", said, "make room: a broker takes nothing in with less than 64 MiB free")
        if free_bytes < FREE_BYTES_LITTLE:
            return Finding("disk", "warn", said, "a broker's log may take 1 GiB; storage.bytes_max says less")
        if sync_s > SYNC_SLOW_S:
            advice = "each acknowledgement waits for a sync: a broker's data belongs on a local disk that is not busy"
            return Finding("disk", "warn", said, advice)
        return Finding("disk", "ok", said)

    return check


def synced_s(directory: Path) -> float:
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(4_096))
        began_s = time.monotonic()
        file.flush()
        os.fsync(file.fileno())
        return time.monotonic() - began_s


def clock_check() -> Finding:
    """Whether it tells a time that can be, and whether the system says that it is kept right."""
    now = time.gmtime()
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", now)
    if now.tm_year < YEAR_MIN:
        return Finding("clock", "fail", f"it says {said}", "set it: certificates and expiry times go by it")
    if Path("/run/systemd/timesync").is_dir() and not Path("/run/systemd/timesync/synchronized").exists():
        advice = "audits of several machines need clocks that agree: timedatectl set-ntp true"
        return Finding("clock", "warn", f"{said}; it is not synchronised yet", advice)
    return Finding("clock", "ok", said)


def files_check() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Finding("open files", "ok", "no limit")
    said = f"at most {soft:,}; every client of a broker takes one"
    if soft < FILES_MIN:
        return Finding("open files", "fail", said, "ulimit -n 65536")
    return Finding("open files", "warn" if soft < FILES_FEW else "ok", said, "ulimit -n 65536" * (soft < FILES_FEW))


def module_check(name: str, without: str) -> Check:
    """Of a package that there is a way without."""

    def check() -> Finding:
        if importlib.util.find_spec(name) is None:
            return Finding(name, "warn", f"missing: {without}", f"pip install {name}")
        return Finding(name, "ok", f"{name} {version(name)}")

    return check


def browser_check() -> Finding:
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return Finding("browser", "warn", "none was found", "open the address that `roamcast demo` prints elsewhere")
    return Finding("browser", "ok", f"{getattr(found, 'name', 'one')} can show the map of `roamcast demo`")


def checks(data: Path) -> list[Check]:
    return [
        python_check,
        packages_check,
        extras_check,
        java_check,
        port_check("MQTT port", 1883, "roamcast broker --mqtt-port 1884"),
        port_check("HTTP port", 8080, "roamcast broker --http-port 8081"),
        loopback_check,
        network_check,
        disk_check(data),
        clock_check,
        files_check,
        module_check("uvloop", "brokers and nodes use asyncio's own loop, which is slower"),
        module_check("numba", "matching and audits use numpy alone, which is slower"),
        module_check("wasmtime", "modulators in WebAssembly cannot run"),
        browser_check,
    ]
