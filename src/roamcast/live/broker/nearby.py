"""The short way of plain messages of QoS 0 whose topic alone does not say who gets them: most often, who is near.

Such a message stays the bytes that it was (`mqtt/runs.py`), and of what it says only that is read which some
subscription asks for. It takes this way if it goes to everybody who wants it and nobody else is to know of it: no
journal, nobody who looks on, no other broker, no group that takes turns. Where more has to be known to tell who gets
it, it becomes an event like any other (`publishing.py`), and so do all of its topic until a subscription changes.
"""

from collections.abc import Sequence

from roamcast.live.broker.audience import Audience
from roamcast.live.broker.content import place_of
from roamcast.live.broker.events import said_by
from roamcast.live.broker.groups import Groups
from roamcast.live.broker.station import Station
from roamcast.model.values import Value
from roamcast.mqtt.runs import Run

Said = dict[str, Value]


class Nearby:
    def __init__(self, station: Station, audience: Audience, groups: Groups) -> None:
        self.station = station
        self.audience = audience
        self.groups = groups

    def takes(self, client: str, run: Run) -> bool:
        if run.qos or client not in self.station.visitors or run.topic in self.audience.apart:
            return False
        return self._is_open() and self.audience.plain(run.topic) is None

    def _is_open(self) -> bool:
        station = self.station
        watched = station.chronicle.on or station.chronicle.onlooker is not None
        return not (watched or self.groups.members or station.has_neighbours())

    def recipients(self, pieces: Sequence[tuple[str, Run]]) -> list[tuple[str, ...] | None]:
        """Who gets each of these runs of one message, by their publishers; None if it is to become an event."""
        if not self._is_open():
            return [None] * len(pieces)
        by_position = self.audience.decides_by_position
        said = [self._said(client, piece, by_position) for client, piece in pieces]
        topics = [piece.topic for (_, piece), each in zip(pieces, said, strict=True) if each is not None]
        found = iter(self.audience.of_said(topics, [each for each in said if each is not None], self.station.now_us))
        answers = [None if each is None else next(found) for each in said]
        for (_, piece), each, answer in zip(pieces, said, answers, strict=True):
            if each is not None and answer is None:
                self.audience.goes_apart(piece.topic)
        return answers

    def _said(self, client: str, piece: Run, by_position: bool) -> Said | None:
        visitor = self.station.visitors.get(client)
        if visitor is None:
            return None
        payload, space = piece.payloads()[0], self.station.space
        if not by_position:
            return said_by(payload, visitor.context, self.station.now_us, space)
        place = place_of(payload, space)
        return None if place is None else {"position": place}
