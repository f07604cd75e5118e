"""What brokers and their clients say to each other, by who says it about what.

| file | between |
|---|---|
| `clients.py` | a client and its border broker |
| `routing.py` | brokers, about wishes, advertisements and events |
| `roaming.py` | brokers, about clients that move |
| `mesh.py` | brokers and clients of a mesh |
| `streams.py` | two neighbours: the stream that carries what brokers say |
"""

from roamcast.broker.messages.clients import (
    Accepted,
    Ack,
    Advertise,
    Attach,
    Early,
    Echo,
    Lost,
    Numbered,
    Probe,
    Pub,
    Report,
    Resend,
    Sub,
    Unsub,
)
from roamcast.broker.messages.mesh import (
    Confirmed,
    Forwarded,
    Has,
    Poll,
    Polled,
    Routed,
    Subscribed,
    Welcomed,
)
from roamcast.broker.messages.roaming import (
    Abandon,
    Complete,
    Farewell,
    Letter,
    NotFound,
    Prepare,
    Prepared,
    Release,
    Relocate,
    Remember,
    Remembered,
    Replay,
)
from roamcast.broker.messages.routing import (
    Advertised,
    Located,
    Notified,
    Settled,
    Unadvertised,
    Unlocated,
    Unwanted,
    Wanted,
)
from roamcast.broker.messages.streams import (
    BrokerMessage,
    Got,
    Hello,
    Sequenced,
)
from roamcast.node.boundary import Message

__all__ = [
    "MESSAGES",
    "Abandon",
    "Accepted",
    "Ack",
    "Advertise",
    "Advertised",
    "Attach",
    "BrokerMessage",
    "Complete",
    "Confirmed",
    "Early",
    "Echo",
    "Farewell",
    "Forwarded",
    "Got",
    "Has",
    "Hello",
    "Letter",
    "Located",
    "Lost",
    "NotFound",
    "Notified",
    "Numbered",
    "Poll",
    "Polled",
    "Prepare",
    "Prepared",
    "Probe",
    "Pub",
    "Release",
    "Relocate",
    "Remember",
    "Remembered",
    "Replay",
    "Report",
    "Resend",
    "Routed",
    "Sequenced",
    "Settled",
    "Sub",
    "Subscribed",
    "Unadvertised",
    "Unlocated",
    "Unsub",
    "Unwanted",
    "Wanted",
    "Welcomed",
]

MESSAGES: tuple[type[Message], ...] = (
    Hello,
    Sequenced,
    Got,
    Numbered,
    Attach,
    Probe,
    Echo,
    Report,
    Early,
    Advertise,
    Sub,
    Unsub,
    Pub,
    Accepted,
    Resend,
    Ack,
    Lost,
    Welcomed,
    Subscribed,
    Has,
    Poll,
)
