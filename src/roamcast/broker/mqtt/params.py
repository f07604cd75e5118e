"""What a broker grants its MQTT clients, as the settings say."""

from typing import Literal

from msgspec import Struct

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.mqtt.payloads import PayloadParams
from roamcast.mqtt.limits import SessionLimits


class CoreParams(Struct, frozen=True, forbid_unknown_fields=True):
    """How much a broker keeps for its clients, and how long one that comes waits for its session."""

    session: SessionLimits = SessionLimits()
    retained_messages_max: int = 100_000
    retained_bytes_max: int = 256 * 1024 * 1024
    lasting_messages_max: int = 1_000
    """Messages with `persist`, of all topics: each is looked at once a second."""
    lasting_bytes_max: int = 16 * 1024 * 1024
    advertised_topics_max: int = 100_000
    """With `protocol.advertisements`, topics that are advertised for clients here; beyond, the one that was published
    to longest ago is not any more."""
    advertised_idle_s: float = 3_600.0
    """How long a topic stays advertised to which nobody publishes."""
    modulators: Limits = Limits()
    """What a modulator of a subscription is granted."""
    reminder_wait_s: float = 10.0
    """How long a client that comes waits until it is known where its session is; then it is to try again later."""

    unreachable: Literal["wait", "anew"] = "wait"
    """What a client does that does not say it itself, when a broker that may have its session is not reached: `anew`
    lets it begin anew at once."""

    payloads: tuple[PayloadParams, ...] = ()
    """How attributes are read of payloads that are not flat, by topic: the first that fits."""

    def __post_init__(self) -> None:
        if self.advertised_topics_max < 1:
            raise ValueError(f"advertised_topics_max is {self.advertised_topics_max}; give 1 or more")
        if not 1 <= self.advertised_idle_s < float("inf"):
            raise ValueError(f"advertised_idle_s is {self.advertised_idle_s}; give seconds, 1 or more")
