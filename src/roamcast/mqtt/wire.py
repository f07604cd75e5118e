"""The data types of the standard's section 1.5, read from and written to bytes.

A reader takes the bytes, where to begin and where the packet ends, and answers with the value and where it ended.
None of them reads past the end that it was given."""

from roamcast.mqtt.reasons import MalformedPacket, ProtocolError, Unsendable

LENGTH_MAX = 0xFFFF
VARIABLE_MAX = 268_435_455


def read_byte(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise MalformedPacket("the packet ends within a byte")
    return data[at], at + 1


def read_two(data: bytes, at: int, end: int) -> tuple[int, int]:
    after = at + 2
    if after > end:
        raise MalformedPacket("the packet ends within a two byte integer")
    return (data[at] << 8) | data[at + 1], after


def read_four(data: bytes, at: int, end: int) -> tuple[int, int]:
    after = at + 4
    if after > end:
        raise MalformedPacket("the packet ends within a four byte integer")
    return int.from_bytes(data[at:after], "big"), after


def read_variable(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in (0, 7, 14, 21):
        if at >= end:
            raise MalformedPacket("the packet ends within a variable byte integer")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise MalformedPacket("a variable byte integer is longer than it needs to be")
            return value, at
    raise MalformedPacket("a variable byte integer has more than four bytes")


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    size, at = read_two(data, at, end)
    after = at + size
    if after > end:
        raise MalformedPacket("the packet ends within binary data")
    return data[at:after], after


def read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    size, at = read_two(data, at, end)
    after = at + size
    if after > end:
        raise MalformedPacket("the packet ends within a text")
    return text_of(data[at:after]), after


def text_of(data: bytes) -> str:
    """Python's strict UTF-8 is the standard's: no surrogates, nothing overlong. U+0000 is forbidden besides."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise MalformedPacket(f"a text is not UTF-8: {problem.reason}") from problem
    if "\0" in text:
        raise MalformedPacket("a text contains U+0000")
    return text


def read_pair(data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    name, at = read_text(data, at, end)
    value, at = read_text(data, at, end)
    return (name, value), at


def read_switch(data: bytes, at: int, end: int) -> tuple[bool, int]:
    value, at = read_byte(data, at, end)
    if value > 1:
        raise ProtocolError(f"a property that is 0 or 1 is {value}")
    return value == 1, at


def write_byte(value: int) -> bytes:
    return value.to_bytes(1, "big")


def write_two(value: int) -> bytes:
    return value.to_bytes(2, "big")


def write_four(value: int) -> bytes:
    return value.to_bytes(4, "big")


ONE_BYTE_VARIABLES = tuple(bytes([value]) for value in range(128))


def write_variable(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE_VARIABLES[value]
    if value > VARIABLE_MAX:
        raise Unsendable(f"{value} does not fit a variable byte integer")
    written = bytearray()
    while value > 127:
        written.append((value & 0x7F) | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def write_binary(value: bytes) -> bytes:
    size = len(value)
    if size > LENGTH_MAX:
        raise Unsendable(f"{size} bytes of data, at most {LENGTH_MAX} can be sent")
    return size.to_bytes(2, "big") + value


def write_text(value: str) -> bytes:
    try:
        encoded = value.encode()
    except UnicodeEncodeError as problem:
        raise Unsendable("text contains an unpaired surrogate") from problem
    size = len(encoded)
    if size > LENGTH_MAX:
        raise Unsendable(f"a text of {size} bytes, at most {LENGTH_MAX} can be sent")
    if 0 in encoded:
        raise Unsendable("a text contains U+0000")
    return size.to_bytes(2, "big") + encoded


def write_pair(value: tuple[str, str]) -> bytes:
    return write_text(value[0]) + write_text(value[1])


def write_switch(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"
