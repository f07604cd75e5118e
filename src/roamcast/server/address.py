"""Where something of a broker can be reached."""

from msgspec import Struct


class Address(Struct, frozen=True):
    what: str
    host: str
    port: int
