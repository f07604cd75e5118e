"""Events of a connection one by one, for brokers of tests that know no batches."""

from collections.abc import Iterable, Iterator

from roamcast.mqtt.events import AnyEvent, PublishedBatch


def unbatched(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    for event in events:
        if isinstance(event, PublishedBatch):
            yield from event.each()
        else:
            yield event
