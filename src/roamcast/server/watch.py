"""What a server tells those who watch it: the journal, metrics, logs."""

from typing import Protocol

from roamcast.live.broker.effects import AnyRecord
from roamcast.live.broker.inputs import AnyGiven
from roamcast.mqtt.reasons import Reason
from roamcast.server.http.metrics import ListenerKind


class Watch(Protocol):
    def given(self, now_us: int, given: AnyGiven) -> None: ...
    def record(self, now_us: int, record: AnyRecord) -> None: ...
    def opened(self, listener: ListenerKind) -> None:
        """Somebody connected, who has said nothing yet."""
        ...

    def closed(self, listener: ListenerKind) -> None: ...
    def passed(self, qos: int, count: int, payload_bytes: int) -> None:
        """So many messages have come from a client that change nothing that lasts."""
        ...

    def handed(self, qos: int, payload_bytes: int, count: int) -> None:
        """So many deliveries go to the sockets of clients, with so many bytes in all."""
        ...

    def disconnected(self, client: str, reason: Reason, detail: str) -> None: ...
    def remark(self, what: str, detail: str) -> None: ...
    def snapshot_done(self, problem: Exception | None) -> None: ...


class SilentWatch(Watch):
    def given(self, now_us: int, given: AnyGiven) -> None:
        return

    def record(self, now_us: int, record: AnyRecord) -> None:
        return

    def opened(self, listener: ListenerKind) -> None:
        return

    def closed(self, listener: ListenerKind) -> None:
        return

    def passed(self, qos: int, count: int, payload_bytes: int) -> None:
        return

    def handed(self, qos: int, payload_bytes: int, count: int) -> None:
        return

    def disconnected(self, client: str, reason: Reason, detail: str) -> None:
        return

    def remark(self, what: str, detail: str) -> None:
        return

    def snapshot_done(self, problem: Exception | None) -> None:
        return
