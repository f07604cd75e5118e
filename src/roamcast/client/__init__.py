"""An asyncio client for applications that use brokers: `Client`, also known as `roamcast.Client`."""

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
