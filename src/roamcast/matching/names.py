"""Names and their numbers, in a few bytes each.

A dictionary of strings costs 150 bytes a name: the string, the integer, the table. With a million subscriptions and
their subscribers that is most of what the engine would hold. Here the names lie one after the other in one heap of
UTF-8, each behind its length, and a table of open addressing holds nothing but numbers: about 16 bytes and the name
itself. Finding one takes about half a microsecond.
"""

from array import array

VACANT, REMOVED = -1, -2
NOWHERE = 2**32 - 1
"""Where a name begins that was removed; the heap ends before it."""
LONG = 255
"""A length of this or more is written in four bytes behind it."""


class Names:
    def __init__(self) -> None:
        self._table = array("i", [VACANT] * 8)
        self._taken = 0
        """Places of the table that are not vacant, those of removed names among them."""
        self._heap = bytearray()
        self._lost_bytes = 0
        self._begin = array("I")
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._begin) - len(self._free)

    @property
    def nbytes(self) -> int:
        tables = (self._table, self._begin)
        return sum(len(each) * each.itemsize for each in tables) + len(self._heap)

    def find(self, name: str) -> int:
        """Its number, or -1."""
        written = as_written(name)
        table, begin, heap, mask = self._table, self._begin, self._heap, len(self._table) - 1
        place = hash(written) & mask
        while (number := table[place]) != VACANT:
            if number >= 0 and heap.startswith(written, begin[number]):
                return number
            place = (place + 1) & mask
        return -1

    def add(self, name: str) -> int:
        """The number of a name that is not there yet."""
        written = as_written(name)
        if len(self._heap) + len(written) > NOWHERE:
            raise MemoryError("more names than 4 GiB of text")
        if 3 * (self._taken + 1) > 2 * len(self._table):
            self._rebuild_table()
        if self._free:
            number = self._free.pop()
            self._begin[number] = len(self._heap)
        else:
            number = len(self._begin)
            self._begin.append(len(self._heap))
        self._heap += written
        self._enter(written, number)
        return number

    def remove(self, number: int) -> None:
        written = self._written(number)
        mask = len(self._table) - 1
        place = hash(written) & mask
        while self._table[place] != number:
            place = (place + 1) & mask
        self._table[place] = REMOVED
        self._lost_bytes += len(written)
        self._begin[number] = NOWHERE
        self._free.append(number)
        if self._lost_bytes > 1_024 + len(self._heap) // 2:
            self._rebuild_heap()

    def name(self, number: int) -> str:
        written = self._written(number)
        return written[1 if written[0] < LONG else 5 :].decode("utf-8", "surrogatepass")

    def is_used(self, number: int) -> bool:
        return 0 <= number < len(self._begin) and self._begin[number] != NOWHERE

    def _written(self, number: int) -> bytes:
        """A name that is there, behind its length."""
        begin = self._begin[number]
        size = 1 + self._heap[begin]
        if size > LONG:
            size = 5 + int.from_bytes(self._heap[begin + 1 : begin + 5], "little")
        return bytes(self._heap[begin : begin + size])

    def _enter(self, written: bytes, number: int) -> None:
        mask = len(self._table) - 1
        place = hash(written) & mask
        while self._table[place] >= 0:
            place = (place + 1) & mask
        if self._table[place] == VACANT:
            self._taken += 1
        self._table[place] = number

    def _rebuild_table(self) -> None:
        size = 8
        while size < 2 * (len(self) + 1):
            size *= 2
        self._table = array("i", [VACANT]) * size
        self._taken = 0
        for number in filter(self.is_used, range(len(self._begin))):
            self._enter(self._written(number), number)

    def _rebuild_heap(self) -> None:
        heap = bytearray()
        for number in filter(self.is_used, range(len(self._begin))):
            written = self._written(number)
            self._begin[number] = len(heap)
            heap += written
        self._heap, self._lost_bytes = heap, 0


def as_written(name: str) -> bytes:
    """Behind its length no name begins another one."""
    data = name.encode("utf-8", "surrogatepass")
    if len(data) < LONG:
        return SHORT[len(data)] + data
    return SHORT[LONG] + len(data).to_bytes(4, "little") + data


SHORT = tuple(bytes([length]) for length in range(LONG + 1))
