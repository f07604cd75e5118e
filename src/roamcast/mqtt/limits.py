"""Limits of a connection. CONNACK announces them to MQTT 5 clients; 3.1.1 clients are held to them unannounced."""

from msgspec import Struct

from roamcast.mqtt.packets import NEVER_S

CONNECT_BYTES = 16
"""A smaller maximum would refuse every client."""


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    packet_bytes_max: int = 1024 * 1024
    receive_max: int = 1_024
    """Messages of QoS 1 and 2 from the client that are not acknowledged yet."""
    in_flight_max: int = 1_024
    """The same in the other direction, if the client allows as many."""
    topic_alias_max: int = 64
    """Aliases that the client may use."""
    topic_alias_out_max: int = 64
    """Aliases that are used towards the client, if it allows as many."""
    keep_alive_max_s: int | None = None
    """An MQTT 5 client that wants a longer one, or none, is given this."""
    session_expiry_max_s: int = NEVER_S
    connect_timeout_us: int = 10_000_000
    requests_max: int = 32
    """SUBSCRIBEs and UNSUBSCRIBEs that wait for an answer; reading stops at so many."""
    plain_queue_max: int = 1_000
    """Messages of QoS 0 that wait for a client which is slow to read; the next is dropped."""
    plain_queue_bytes_max: int = 4 * 1024 * 1024
    """The same in bytes."""
    output_bytes_max: int = 1024 * 1024
    """Answers that wait for a client which sends and does not read; the connection ends there."""
    qos_max: int = 2
    retain_available: bool = True
    shared_available: bool = True

    def __post_init__(self) -> None:
        """What CONNACK could not say is not to be had."""
        sixteen_bits = (self.receive_max, self.in_flight_max, self.topic_alias_max, self.topic_alias_out_max)
        if not all(0 <= each <= 0xFFFF for each in (*sixteen_bits, self.keep_alive_max_s or 0)):
            raise ValueError("receive_max, in_flight_max, topic_alias_max, keep_alive_max_s are at most 65535")
        if self.receive_max < 1 or self.in_flight_max < 1 or self.requests_max < 1:
            raise ValueError("receive_max, in_flight_max and requests_max are at least 1")
        if not CONNECT_BYTES <= self.packet_bytes_max <= 0xFFFF_FFFF or not 0 <= self.qos_max <= 2:
            raise ValueError(f"packet_bytes_max is at least {CONNECT_BYTES}, qos_max from 0 to 2")


QUEUE_MESSAGES_CEILING = 60_000
"""Packet identifiers are 16 bits wide, and everything that waits has one."""


class SessionLimits(Struct, frozen=True, forbid_unknown_fields=True):
    queue_messages_max: int = 10_000
    queue_bytes_max: int = 16 * 1024 * 1024
    subscriptions_max: int = 1_000

    def __post_init__(self) -> None:
        if not 1 <= self.queue_messages_max <= QUEUE_MESSAGES_CEILING:
            raise ValueError(f"queue_messages_max is from 1 to {QUEUE_MESSAGES_CEILING}")
