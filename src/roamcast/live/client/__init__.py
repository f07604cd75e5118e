"""An asyncio client for applications that use brokers: `Client`, also known as `roamcast.Client`."""

from roamcast.live.client.client import Client, ClientSubscription
from roamcast.live.client.errors import (
    ClientError,
    ConnectionRefused,
    NameTaken,
    NotConnected,
    PublicationExpired,
    PublicationRefused,
    Refused,
    SubscriptionRefused,
)
from roamcast.live.client.ground import BrokerGround
from roamcast.live.client.inbox import ClientEvent

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
