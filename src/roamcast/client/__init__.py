"""An asyncio client for applications that use brokers: `Client`, also known as `roamcast.Client`.

docs/reference/CLIENT.md describes it for users.

- `client.py`: `Client` and `ClientSubscription`; `errors.py`: what it raises; `fences.py`: `client.fences`
- `session.py`: the MQTT session without I/O; `connection.py`: one connection; `attachment.py` and `broker_list.py`:
  reconnecting and choosing the next broker; `inbox.py`: events that wait for the application
- `content.py`, `packing.py`: the model's values as MQTT packets
- `following.py`: reports positions from a source; `ground.py`: `BrokerGround`, runs an `Application` on brokers
"""

from typing import TYPE_CHECKING

from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.client.client import Client, ClientSubscription
    from roamcast.client.errors import (
        ClientError,
        ConnectionRefused,
        NameTaken,
        NotConnected,
        PublicationExpired,
        PublicationRefused,
        Refused,
        SubscriptionRefused,
    )
    from roamcast.client.ground import BrokerGround
    from roamcast.client.inbox import ClientEvent

__all__ = [
    "BrokerGround",
    "Client",
    "ClientError",
    "ClientEvent",
    "ClientSubscription",
    "ConnectionRefused",
    "NameTaken",
    "NotConnected",
    "PublicationExpired",
    "PublicationRefused",
    "Refused",
    "SubscriptionRefused",
]

__getattr__ = on_demand(
    "roamcast.client",
    {
        "client": ("Client", "ClientSubscription"),
        "errors": (
            "ClientError",
            "ConnectionRefused",
            "NameTaken",
            "NotConnected",
            "PublicationExpired",
            "PublicationRefused",
            "Refused",
            "SubscriptionRefused",
        ),
        "ground": ("BrokerGround",),
        "inbox": ("ClientEvent",),
    },
)
