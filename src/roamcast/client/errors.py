"""The exceptions of the client."""

from roamcast.mqtt.reasons import Reason


class ClientError(Exception):
    """Base of all."""


class NotConnected(ClientError):
    """No broker can be reached, or none lets this client in."""


class Refused(ClientError):
    """A broker said no. `reason` is its reason code, `text` its own words, if it has any."""

    def __init__(self, what: str, reason: Reason, text: str | None) -> None:
        super().__init__(f"{what}: {text or reason.name.lower().replace('_', ' ')}")
        self.reason = reason
        self.text = text


class PublicationRefused(Refused):
    """It reached nobody."""


class PublicationExpired(ClientError):
    """Its time was over before a broker was reached."""


class SubscriptionRefused(Refused):
    """It does not hold; the text says what is wrong with its filter or scope, or what the rules forbid."""


class ConnectionRefused(Refused, NotConnected):
    """No broker of the list lets this client in."""


class NameTaken(ClientError):
    """Another client came with the same name, and the brokers serve that one now."""
