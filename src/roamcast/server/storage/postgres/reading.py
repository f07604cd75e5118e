"""What is in the tables of one broker, checked: who reads it gets what was appended, in order, or `DamagedLog`."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, LiteralString, TypeAlias

from msgspec import Struct

from roamcast.server.storage.errors import DamagedLog
from roamcast.server.storage.store import Segment

CHECKSUM_BYTES = 16
READ_ROWS = 64
BEGIN = b""
"""What the chain of a new log goes on from."""
STATE = "SELECT life, covered, covered_chain, last, chain, checksum FROM roamcast.logs WHERE broker = %(broker)s"
PIECE = "SELECT body, checksum FROM roamcast.snapshots WHERE broker = %(broker)s AND piece = %(piece)s"
BATCHES = """
SELECT number, chain, body FROM roamcast.batches
WHERE broker = %(broker)s AND number > %(behind)s ORDER BY number LIMIT %(rows)s
"""
SEGMENT = "SELECT body, checksum FROM roamcast.segments WHERE broker = %(broker)s AND number = %(number)s"
NUMBERS = "SELECT number FROM roamcast.segments WHERE broker = %(broker)s ORDER BY number"

Ask: TypeAlias = Callable[[LiteralString, Mapping[str, object]], list[tuple[Any, ...]]]


class State(Struct, frozen=True):
    """The row of the log. `covered` and `last` are numbers of batches, 0 before any."""

    life: int = 0
    covered: int = 0
    covered_chain: bytes = BEGIN
    last: int = 0
    chain: bytes = BEGIN

    def given(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"checksum": self.checksum}

    @property
    def checksum(self) -> bytes:
        values = (self.life, self.covered, self.covered_chain, self.last, self.chain)
        return blake2b(repr(values).encode(), digest_size=CHECKSUM_BYTES).digest()


class Reader:
    def __init__(self, place: str, name: str, ask: Ask) -> None:
        """`name` is the broker's; `ask` answers a query with all rows."""
        self.place = place
        self._name = name
        self._ask = ask

    def state(self) -> State | None:
        """None if there is no log of this broker."""
        rows = self._ask(STATE, {"broker": self._name})
        if not rows:
            return None
        life, covered, covered_chain, last, chain, checksum = rows[0]
        state = State(life, covered, bytes(covered_chain), last, bytes(chain))
        if bytes(checksum) != state.checksum:
            raise DamagedLog(self.place, "the row that says what is stored is damaged")
        return state

    def snapshot(self, state: State) -> bytes | None:
        if not state.covered:
            return None
        pieces = list[bytes]()
        while rows := self._ask(PIECE, {"broker": self._name, "piece": len(pieces)}):
            body, checksum = map(bytes, rows[0])
            if checksum != piece_checksum(state.covered, len(pieces), body):
                raise DamagedLog(self.place, f"piece {len(pieces)} of the snapshot is damaged: its checksum is wrong")
            pieces.append(body)
        if not pieces or pieces.pop() != b"":
            raise DamagedLog(self.place, f"the snapshot is cut off behind piece {len(pieces)}")
        return b"".join(pieces)

    def batches(self, state: State) -> Iterator[bytes]:
        number, chain = state.covered, state.covered_chain
        while rows := self._ask(BATCHES, {"broker": self._name, "behind": number, "rows": READ_ROWS}):
            for found, link, body in rows:
                number += 1
                if found != number:
                    raise DamagedLog(self.place, f"batch {number} of {state.last} is missing")
                chain = link_of(chain, number, body)
                if bytes(link) != chain:
                    raise DamagedLog(self.place, f"batch {number} of {state.last} is damaged: its checksum is wrong")
                yield bytes(body)
        if (number, chain) != (state.last, state.chain):
            raise DamagedLog(self.place, f"the log ends with batch {number}, and {state.last} were safe")

    def segment(self, number: int) -> bytes:
        rows = self._ask(SEGMENT, {"broker": self._name, "number": number})
        if not rows:
            raise DamagedLog(self.place, f"segment {number} is missing")
        body, checksum = map(bytes, rows[0])
        if checksum != segment_checksum(number, body):
            raise DamagedLog(self.place, f"segment {number} is damaged: its checksum is wrong")
        return body

    def numbers(self) -> list[int]:
        return [row[0] for row in self._ask(NUMBERS, {"broker": self._name})]

    def segments(self) -> Iterator[Segment]:
        for number in self.numbers():
            yield number, self.segment(number)


def link_of(chain: bytes, number: int, body: bytes) -> bytes:
    """The next link of the chain: nothing else than this number and body behind all those before has it."""
    return blake2b(body, digest_size=CHECKSUM_BYTES, key=chain, salt=number.to_bytes(16, "big")).digest()


def piece_checksum(covered: int, piece: int, body: bytes) -> bytes:
    key, salt = piece.to_bytes(8, "big"), covered.to_bytes(16, "big")
    return blake2b(body, digest_size=CHECKSUM_BYTES, key=key, salt=salt).digest()


def segment_checksum(number: int, body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM_BYTES, salt=number.to_bytes(16, "big")).digest()
