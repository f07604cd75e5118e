"""What happens at a broker, for those who look: metrics, a log for people, the journal for the pipeline."""

from collections.abc import Callable
from pathlib import Path

import structlog

from roamcast.journal.records import BadJournal, Run
from roamcast.journal.scribe import Scribe
from roamcast.live.broker.effects import (
    AnyRecord,
    RecordContext,
    RecordDelivery,
    RecordGone,
    RecordNote,
    RecordPublication,
    RecordSubscription,
)
from roamcast.live.broker.inputs import AnyGiven, Arrived, LinkChanged, Published
from roamcast.live.runtime.diary import Diary
from roamcast.model.places import MovementGraph
from roamcast.model.space import Earth, Plane
from roamcast.mqtt.reasons import Reason
from roamcast.server.http.metrics import ListenerKind, Metrics, RoamDirection
from roamcast.server.tracking import LOCATION_REMARK
from roamcast.server.watch import Watch

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
)
"""Remarks that a client can bring about as often as it likes, or one lost link hundreds of times: for the log at its
most talkative."""


class Witness(Watch):
    def __init__(
        self, name: str, space: Plane | Earth, metrics: Metrics, journal: Path | None, level: str = "info"
    ) -> None:
        self.name = name
        self.metrics = metrics
        self.log = structlog.get_logger().bind(broker=name)
        self._debug: Callable[..., None] = self.log.debug if level == "debug" else silent
        self.diary: Diary | None = None
        self._scribe: Scribe | None = None
        self._journal = journal
        self._space = space

    def open_journal(self, now_us: int, graph: MovementGraph | None = None) -> None:
        """Raises `BadJournal` for a directory that cannot be one."""
        if self._journal is not None:
            places = None if graph is None else graph.neighbours
            about = Run(self.name, now_us, self._space, movement_graph=places)
            try:
                self.diary = Diary(self._journal, about)
            except OSError as problem:
                what = f"{self._journal}: cannot be a journal's directory: {problem.strerror}"
                raise BadJournal(what) from problem
            self._scribe = Scribe(self.diary)

    def given(self, now_us: int, given: AnyGiven) -> None:
        match given:
            case Published(_, _, message):
                self.metrics.received(message.qos, len(message.payload))
            case Arrived(client):
                self._debug("client came", client=client)
            case LinkChanged(peer, up):
                self.log.info("link up" if up else "link down", peer=peer)
                self.metrics.link(peer, "up" if up else "down")
            case _:
                return

    def record(self, now_us: int, record: AnyRecord) -> None:
        if self._scribe is None:
            return
        match record:
            case RecordContext(context):
                self._scribe.moved(now_us, context)
            case RecordGone(client, elsewhere):
                self._scribe.forget(client)
                if not elsewhere:
                    self._scribe.gone(now_us, client)
            case RecordPublication(client, event):
                self._scribe.published(now_us, client, event)
            case RecordDelivery(client, event, subscription):
                self._scribe.delivered(now_us, client, event, subscription)
            case RecordSubscription(client, subscription_id, wanted):
                if wanted is None:
                    self._scribe.unsubscribed(now_us, client, subscription_id)
                else:
                    self._scribe.subscribed(now_us, client, wanted)
            case RecordNote(client, what, detail):
                self._scribe.noted(now_us, client, what, detail)

    def opened(self, listener: ListenerKind) -> None:
        self.metrics.connected(listener)

    def closed(self, listener: ListenerKind) -> None:
        self.metrics.disconnected(listener)

    def passed(self, qos: int, count: int, payload_bytes: int) -> None:
        self.metrics.received(qos, payload_bytes, count)

    def handed(self, qos: int, payload_bytes: int, count: int) -> None:
        self.metrics.sent(qos, payload_bytes, count)

    def disconnected(self, client: str, reason: Reason, detail: str) -> None:
        self._debug("client left", client=client, reason=reason.name.lower(), detail=detail)

    def remark(self, what: str, detail: str) -> None:
        if what in COUNTED:
            self.metrics.dropped(COUNTED[what])
        if what in ROAMED:
            self.metrics.roamed(ROAMED[what])
        if what.startswith(LOCATION_REMARK):
            self.metrics.location_unused(what.removeprefix(LOCATION_REMARK))
            return
        if what == "connect_refused" or what == "connection_refused":
            self.metrics.refused(what)
        if what == "onlooker_failed":
            self.metrics.failed("studio")
            self.log.error(
                "the studio made a mistake and is off until the next start; please report it", detail=detail
            )
            return
        if what == "internal_error":
            self.metrics.failed("broker")
            self.log.error("a mistake in the broker; please report it", detail=detail)
            return
        (self._debug if what in QUIET or what in COUNTED else self.log.info)(what.replace("_", " "), detail=detail)

    def snapshot_done(self, problem: Exception | None) -> None:
        if problem is None:
            self._debug("snapshot stored")
        else:
            self.log.warning("snapshot not stored", why=str(problem))

    def close(self, now_us: int) -> None:
        if self.diary is not None:
            self.diary.end(now_us)


def silent(*_: object, **__: object) -> None:
    return
