"""Connections between brokers: frames over TCP, with mutual TLS if wanted, one link for each pair.

`Links` listens and dials; a `LinkListener` is told which peers are up and what they say.
"""

from roamcast.server.links.frames import PAYLOAD_BYTES_MAX, USER_KIND_MAX, BadName, check_name
from roamcast.server.links.links import LinkListener, Links
from roamcast.server.links.settings import LinkSettings

__all__ = [
    "PAYLOAD_BYTES_MAX",
    "USER_KIND_MAX",
    "BadName",
    "LinkListener",
    "LinkSettings",
    "Links",
    "check_name",
]
