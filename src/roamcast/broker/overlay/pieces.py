"""A handoff in pieces (O4): what a client's modulators and session hold may be longer than a message can be.

Flows keep order and lose nothing, so the pieces are the bytes of the handoff, one after the other. Most handoffs are
short, and go as they are.
"""

import msgspec

from roamcast.broker.overlay.messages import Handoff, HandoffPart

PIECE_BYTES_MAX = 262_144
"""A quarter of what the codec takes, so that a parcel has room for its path besides."""
HANDOFF_BYTES_MAX = 67_108_864
"""What a broker puts together for another one, at most."""

ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(Handoff).decode


def cut(handoff: Handoff) -> list[Handoff | HandoffPart]:
    encoded = ENCODE(handoff)
    if len(encoded) <= PIECE_BYTES_MAX:
        return [handoff]
    starts = range(0, len(encoded), PIECE_BYTES_MAX)
    return [
        HandoffPart(handoff.client, handoff.move, len(starts) - 1 - index, encoded[start : start + PIECE_BYTES_MAX])
        for index, start in enumerate(starts)
    ]


class Pieces:
    """What has come of one handoff."""

    def __init__(self, first: HandoffPart) -> None:
        self.move = first.move
        self.left = first.left + 1
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, part: HandoffPart) -> bool:
        """Whether it is the next one."""
        self._length += len(part.piece)
        if part.move != self.move or part.left != self.left - 1 or self._length > HANDOFF_BYTES_MAX:
            return False
        self.left = part.left
        self._pieces.append(part.piece)
        return True

    def whole(self) -> Handoff | None:
        """None: these bytes are no handoff."""
        try:
            return DECODE(b"".join(self._pieces))
        except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError):
            return None
