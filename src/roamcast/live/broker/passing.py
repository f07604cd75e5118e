"""A message of QoS 0 between brokers: it goes beside the stream that loses nothing, and is lost with its link."""

from roamcast.model.event import Event
from roamcast.node.boundary import Message


class Passing(Message, frozen=True, tag="passing"):
    event: Event
    hops: int = 0

    @property
    def event_id(self) -> str:
        return self.event.id
