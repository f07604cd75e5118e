"""Names and their numbers, in a few bytes each.

A dictionary of strings costs 150 bytes a name: the string, the integer, the table. With a million subscriptions and
their subscribers that is most of what the engine would hold. Here the names lie one after the other in one heap of
UTF-8, and a table of open addressing holds nothing but numbers: about 20 bytes and the name itself. Finding one takes
about half a microsecond.
"""

from array import array

VACANT, REMOVED = -1, -2
HEAP_BYTES_MAX = 2**32 - 1


class Names:
    def __init__(self) -> None:
        self._table = array("i", [VACANT] * 8)
        self._taken = 0
        """Places of the table that are not vacant, those of removed names among them."""
        self._heap = bytearray()
        self._lost_bytes = 0
        self._begin = array("I")
        self._size = array("i")
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._size) - len(self._free)

    def find(self, name: str) -> int:
        """Its number, or -1."""
        data = name.encode("utf-8", "surrogatepass")
        table, heap, mask = self._table, self._heap, len(self._table) - 1
        place = hash(data) & mask
        while (number := table[place]) != VACANT:
            if number >= 0 and self._size[number] == len(data):
                begin = self._begin[number]
                if heap[begin : begin + len(data)] == data:
                    return number
            place = (place + 1) & mask
        return -1

    def add(self, name: str) -> int:
        """The number of a name that is not there yet."""
        data = name.encode("utf-8", "surrogatepass")
        if len(self._heap) + len(data) > HEAP_BYTES_MAX:
            raise MemoryError("more names than 4 GiB of text")
        if 3 * (self._taken + 1) > 2 * len(self._table):
            self._rebuild_table()
        if self._free:
            number = self._free.pop()
            self._begin[number], self._size[number] = len(self._heap), len(data)
        else:
            number = len(self._size)
            self._begin.append(len(self._heap))
            self._size.append(len(data))
        self._heap += data
        self._enter(data, number)
        return number

    def remove(self, number: int) -> None:
        data = self._data(number)
        mask = len(self._table) - 1
        place = hash(data) & mask
        while self._table[place] != number:
            place = (place + 1) & mask
        self._table[place] = REMOVED
        self._lost_bytes += len(data)
        self._size[number] = -1
        self._free.append(number)
        if self._lost_bytes > 1_024 + len(self._heap) // 2:
            self._rebuild_heap()

    def name(self, number: int) -> str:
        return self._data(number).decode("utf-8", "surrogatepass")

    def is_used(self, number: int) -> bool:
        return 0 <= number < len(self._size) and self._size[number] >= 0

    def _data(self, number: int) -> bytes:
        begin = self._begin[number]
        return bytes(self._heap[begin : begin + self._size[number]])

    def _enter(self, data: bytes, number: int) -> None:
        mask = len(self._table) - 1
        place = hash(data) & mask
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
        for number, length in enumerate(self._size):
            if length >= 0:
                self._enter(self._data(number), number)

    def _rebuild_heap(self) -> None:
        heap = bytearray()
        for number, length in enumerate(self._size):
            if length >= 0:
                data = self._data(number)
                self._begin[number] = len(heap)
                heap += data
        self._heap, self._lost_bytes = heap, 0
