"""The network interfaces of this machine that multicast can use, found without being told (L1)."""

import fcntl
import socket
import struct

from msgspec import Struct

GET_FLAGS = 0x8913
GET_ADDRESS = 0x8915
"""SIOCGIFFLAGS and SIOCGIFADDR of Linux."""
IS_UP = 0x1
IS_LOOPBACK = 0x8
IS_RUNNING = 0x40
HAS_MULTICAST = 0x1000
REQUEST_BYTES = 40
NAME_BYTES = 16


class BadInterface(Exception):
    """No interface of that name or address; the message says which there are."""


class Interface(Struct, frozen=True):
    name: str
    index: int
    address: str
    loopback: bool = False


def all_interfaces() -> list[Interface]:
    """Those that are up, have an IPv4 address, and can do multicast; loopback can among the nodes of one machine."""
    found: list[Interface] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for index, name in socket.if_nameindex():
            request = struct.pack(f"{NAME_BYTES}s{REQUEST_BYTES - NAME_BYTES}x", name.encode()[: NAME_BYTES - 1])
            try:
                answer = fcntl.ioctl(asking, GET_FLAGS, request)
                (flags,) = struct.unpack_from("H", answer, NAME_BYTES)
                address = socket.inet_ntoa(fcntl.ioctl(asking, GET_ADDRESS, request)[20:24])
            except OSError:
                # It has no IPv4 address, or went away while it was asked.
                continue
            loopback = bool(flags & IS_LOOPBACK)
            if flags & IS_UP and flags & IS_RUNNING and (flags & HAS_MULTICAST or loopback):
                found.append(Interface(name, index, address, loopback))
    return found


def chosen_interfaces(wanted: tuple[str, ...] = ()) -> list[Interface]:
    """By name or address; without a wish all that lead out of the machine, or loopback where none does."""
    found = all_interfaces()
    if not wanted:
        return [each for each in found if not each.loopback] or found
    chosen: list[Interface] = []
    for wish in wanted:
        fits = [each for each in found if wish in (each.name, each.address)]
        if not fits:
            there = ", ".join(f"{each.name} ({each.address})" for each in found) or "none"
            raise BadInterface(f"interface '{wish}' is not there or has no IPv4 address; there are: {there}")
        chosen += [each for each in fits if each not in chosen]
    return chosen
