"""A file of named arrays and Arrow tables that is read by mapping it into memory: what is not touched costs nothing.

All processes of a machine share its pages, and opening it copies nothing. The file begins with a mark and a table of
contents; every section begins at a multiple of 64 bytes. Whoever reads it hands its arrays to compiled code, which
checks no bounds, so a file that is cut off, or of another kind, is refused here.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

MARK = b"roamcast sections 1\n"
ALIGNED = 64
TABLE = "table"


class BadSections(Exception):
    """A file that is not one of ours, or not whole; the message names it."""


class Section(msgspec.Struct, frozen=True):
    kind: str
    """A numpy type, or `table`."""
    shape: tuple[int, ...]
    offset: int
    bytes: int


def write_sections(out: BinaryIO, arrays: Mapping[str, Any], tables: Mapping[str, Any]) -> int:
    """Writes all of it, and answers how many bytes that is."""
    parts: list[tuple[int, Any]] = []
    contents: dict[str, Section] = {}
    offset = 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        contents[name] = Section(data.dtype.str, data.shape, offset, data.nbytes)
        parts.append((data.nbytes, data.tobytes()))
        offset += aligned(data.nbytes)
    for name, table in tables.items():
        content = as_bytes(table)
        contents[name] = Section(TABLE, (len(table),), offset, content.size)
        parts.append((content.size, content))
        offset += aligned(content.size)
    head = msgspec.json.encode(contents)
    opening = MARK + len(head).to_bytes(8, "little") + head
    out.write(opening + bytes(aligned(len(opening)) - len(opening)))
    for size, content in parts:
        out.write(content)
        out.write(bytes(aligned(size) - size))
    return aligned(len(opening)) + offset


class Sections:
    """A file as `write_sections` made it, mapped into memory."""

    def __init__(self, path: str) -> None:
        try:
            self._content = pa.memory_map(path).read_buffer()
        except (OSError, pa.ArrowException) as problem:
            raise BadSections(f"{path}: cannot be read ({problem})") from problem
        self.path = path
        if bytes(self._content[: len(MARK)]) != MARK or self._content.size < len(MARK) + 8:
            raise BadSections(f"{path}: does not begin as a file of sections does")
        size = int.from_bytes(bytes(self._content[len(MARK) : len(MARK) + 8]), "little")
        self._start = aligned(len(MARK) + 8 + size)
        try:
            head = bytes(self._content[len(MARK) + 8 : len(MARK) + 8 + size])
            self._contents = msgspec.json.decode(head, type=dict[str, Section])
        except msgspec.MsgspecError as problem:
            raise BadSections(f"{path}: its table of contents cannot be read ({problem})") from problem

    def array(self, name: str, kind: type) -> Any:
        """An array that can only be read, and is of the type that the reader relies on."""
        section = self._section(name)
        dtype = np.dtype(kind)
        if section.kind != dtype.str or int(np.prod(section.shape)) * dtype.itemsize != section.bytes:
            raise BadSections(f"{self.path}: section '{name}' is {section.kind} {section.shape}, not {dtype.str}")
        return np.frombuffer(self._bytes(section), dtype).reshape(section.shape)

    def table(self, name: str) -> Any:
        section = self._section(name)
        if section.kind != TABLE:
            raise BadSections(f"{self.path}: section '{name}' is {section.kind}, not a table")
        return pa.ipc.open_file(self._bytes(section)).read_all()

    def _section(self, name: str) -> Section:
        if name not in self._contents:
            raise BadSections(f"{self.path}: section '{name}' is missing")
        return self._contents[name]

    def _bytes(self, section: Section) -> Any:
        first = self._start + section.offset
        if section.offset < 0 or section.bytes < 0 or first + section.bytes > self._content.size:
            raise BadSections(f"{self.path}: is cut off")
        return self._content.slice(first, section.bytes)


def aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def as_bytes(table: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return sink.getvalue()
