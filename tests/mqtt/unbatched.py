"""Events of a connection one by one, for brokers of tests that know no batches."""

from collections.abc import Iterable, Iterator

from roamcast.mqtt.events import Acknowledged, AcknowledgedTogether, AnyEvent, PublishedBatch


def unbatched(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    for event in events:
        match event:
            case PublishedBatch():
                yield from event.each()
            case AcknowledgedTogether(packet_ids, tokens):
                yield from map(Acknowledged, packet_ids, tokens)
            case _:
                yield event
