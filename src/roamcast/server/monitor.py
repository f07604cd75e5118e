"""What the operator of a broker sees: metrics, and a log for people."""

from collections.abc import Callable

import structlog

from roamcast.broker.mqtt.inputs import AnyGiven, Arrived, LinkChanged, Published, PublishedByMany, PublishedTogether
from roamcast.mqtt.reasons import Reason
from roamcast.server.http.metrics import ConnectionKind, Metrics, RoamDirection
from roamcast.server.tracking import LOCATION_REMARK

COUNTED = {
    "dropped_expired": "expired",
    "dropped_too_large": "too_large",
    "dropped_queue_full": "queue_full",
    "dropped_unsendable": "unsendable",
    "delivery_dropped": "queue_full",
    "events_lost": "lost",
    "modulator_failed": "modulator",
    "modulator_missing": "modulator",
    "retained_dropped": "retained_full",
    "lasting_dropped": "lasting_full",
    "passing_dropped": "storage_full",
}
"""Remarks that say that a message will not arrive, by what to count it under."""
ROAMED: dict[str, RoamDirection] = {"roamed_in": "in", "roamed_out": "out"}
RELOCATED = "relocated"
"""A broker of an overlay has handed over; the detail is why."""
QUIET = (
    "counterpart_expired",
    "no_session",
    "roamed_in",
    "roamed_out",
    "publish_refused",
    "subscription_refused",
    "bad_report",
    "message_refused",
    "advertisement_refused",
    "late_replay",
    "stale_attachment",
    "parcel_stopped",
    "session_unreachable",
)
"""Remarks that a client can bring about as often as it likes, or one lost link hundreds of times: for the log at its
most talkative."""
WARNINGS = ("neighbour_lost", "stream_full", "clocks_differ")
LOSSES = ("neighbour_gone", "segment_missing")
"""Remarks that say that acknowledged messages may not arrive."""


class Monitor:
    def __init__(self, name: str, metrics: Metrics, level: str = "info") -> None:
        self.metrics = metrics
        self.name = name
        self.set_level(level)

    def given(self, given: AnyGiven) -> None:
        match given:
            case Published(_, _, message):
                self.metrics.received(message.qos, len(message.payload))
            case PublishedTogether(payloads=payloads):
                self.metrics.received(1, sum(map(len, payloads)), len(payloads))
            case PublishedByMany(rows):
                for row in rows:
                    self.given(row)
            case Arrived(client):
                self._debug("client came", client=client)
            case LinkChanged(peer, up):
                self.log.info("link up" if up else "link down", peer=peer)
                self.metrics.link(peer, "up" if up else "down")
            case _:
                return

    def set_level(self, level: str) -> None:
        """As the log is configured now."""
        self.log = structlog.get_logger().bind(broker=self.name)
        self._debug: Callable[..., None] = self.log.debug if level == "debug" else silent

    def opened(self, listener: ConnectionKind) -> None:
        """Somebody connected, who has said nothing yet."""
        self.metrics.connected(listener)

    def closed(self, listener: ConnectionKind) -> None:
        self.metrics.disconnected(listener)

    def disconnected(self, client: str, reason: Reason, detail: str) -> None:
        self._debug("client left", client=client, reason=reason.name.lower(), detail=detail)

    def remark(self, what: str, detail: str) -> None:
        if what in COUNTED:
            self.metrics.dropped(COUNTED[what])
        if what in ROAMED:
            self.metrics.roamed(ROAMED[what])
        if what == RELOCATED:
            self.metrics.relocated(detail)
        if what.startswith(LOCATION_REMARK):
            self.metrics.location_unused(what.removeprefix(LOCATION_REMARK))
            return
        if what == "connect_refused" or what == "connection_refused":
            self.metrics.refused(what)
        if what == "observer_failed":
            self.metrics.failed("observer")
            self.log.error("an observer made a mistake and is off until the next start; please report it", who=detail)
            return
        if what == "no_position":
            self.log.warning("a client asks for what is near it and has not said where it is", detail=detail)
            return
        if what == "internal_error":
            self.metrics.failed("broker")
            self.log.error("a mistake in the broker; please report it", detail=detail)
            return
        if what in WARNINGS:
            self.log.warning(what.replace("_", " "), detail=detail)
            return
        if what in LOSSES:
            self.metrics.dropped("neighbour")
            self.log.error(what.replace("_", " "), detail=detail)
            return
        (self._debug if what in QUIET or what in COUNTED else self.log.info)(what.replace("_", " "), detail=detail)

    def snapshot_done(self, problem: Exception | None) -> None:
        if problem is None:
            self._debug("snapshot stored")
        else:
            self.log.warning("snapshot not stored", why=str(problem))


def silent(*_: object, **__: object) -> None:
    return
