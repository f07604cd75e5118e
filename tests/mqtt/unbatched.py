"""Events of a connection one by one, for brokers of tests that know no batches."""

from collections.abc import Iterable, Iterator

from roamcast.mqtt.batches import Batch
from roamcast.mqtt.events import AnyEvent, one_by_one


def unbatched(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    for event in events:
        if isinstance(event, Batch):
            yield from one_by_one(event)
        else:
            yield event
