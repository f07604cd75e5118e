"""What libmosquitto does to messages of QoS 2 that no broker can mend, read from what `mosquitto_sub -d` prints.

Two things, in 2.0.11. It forgets a message when the connection ends while it sends PUBCOMP, before the application
has seen it (`handle__pubrel`). And it queues a copy for each PUBLISH of a packet identifier (`handle__publish`),
although a broker must send that again whose PUBREC was lost. Each PUBREL gives the application one copy, and a broker
must send PUBREL again whose PUBCOMP was lost: then the application sees the message twice.
"""

import re
from collections import Counter

PUBLISH = re.compile(r"received PUBLISH \(d\d, q2, r\d, m(\d+),")
PUBREL = re.compile(r"received PUBREL \(Mid: (\d+)\)")


class Library:
    def __init__(self) -> None:
        self.swallowed = 0
        """Messages that the application never saw."""
        self.doubled = 0
        """Copies that it saw beside the first."""
        self._copies = Counter[str]()
        """By packet identifier, how many are queued."""
        self._seen: set[str] = set()
        """Packet identifiers of which copies are queued, and the application has seen one."""
        self._released: str | None = None
        """Of the copy that the application is to see next."""

    def does(self, text: str) -> None:
        """A line between payloads."""
        published, released = PUBLISH.search(text), PUBREL.search(text)
        if published is not None:
            self._copies[published[1]] += 1
        if released is not None and self._copies[released[1]]:
            self._copies[released[1]] -= 1
            self._released = released[1]
        elif "sending PUBCOMP" not in text:
            if "sending CONNECT" in text and self._released is not None:
                self.swallowed += not self._copies[self._released] and self._released not in self._seen
            self._released = None

    def gives(self) -> bool:
        """A payload is printed; whether it is one that the application has not seen."""
        packet_id, self._released = self._released, None
        if packet_id is None:
            return True
        is_new = packet_id not in self._seen
        self.doubled += not is_new
        if self._copies[packet_id]:
            self._seen.add(packet_id)
        else:
            self._seen.discard(packet_id)
        return is_new
