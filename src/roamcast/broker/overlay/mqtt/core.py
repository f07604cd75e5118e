"""The state machine of a live broker in an overlay (O1 to O6): MQTT sessions on the paper's brokers and clients.

Session, window and packet identifiers of a client are those of every live broker, and so is its admission. Who gets
what is not found by the routes between brokers, but by the overlay: `Guests` has its broker and plays its clients.
Where a client's session is, and how it comes here, are the overlay's own too (`seeking.py`, `following.py`). Links
carry what all of these say to each other, and brokers may be linked in any shape.

Nothing is logged: a process takes with it what it has. Nothing is retained and groups share nothing, and `granted`
has CONNACK say so.
"""

from functools import partial

from msgspec.structs import replace

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import AnyGiven, Heard, LinkChanged, Restarted
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.overlay.gauge import LiveGauge, ModelledGauge
from roamcast.broker.overlay.mqtt.bordering import OverlayBorder
from roamcast.broker.overlay.mqtt.guests import TIMER
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.space import Space
from roamcast.mqtt.limits import Limits


def granted(limits: Limits) -> Limits:
    """Of what the settings grant a connection, what an overlay keeps."""
    return replace(
        limits,
        retain_available=False,
        shared_available=False,
    )


class OverlayCore(Core):
    border: OverlayBorder

    def __init__(
        self,
        host: str,
        life: int,
        overlay: OverlayParams,
        params: CoreParams | None = None,
        space: Space | None = None,
        gauge: LiveGauge | None = None,
    ) -> None:
        """Without a gauge, what work costs is as in a simulation."""
        gauge = gauge or ModelledGauge(overlay.event_cost_ms, overlay.load_period_s)
        super().__init__(host, life, overlay.clients, params, space, border=partial(OverlayBorder, overlay, gauge))
        self.broker.handover, self.broker.memory = self.border.guests.following, self.border.guests.seeking

    def _handle(self, given: AnyGiven) -> None:
        match given:
            case Heard(peer, data):
                self.border.guests.heard(peer, data)
                self.border.admission.look_around()
            case LinkChanged(peer, up):
                self.border.guests.link(peer, up)
                self.border.admission.look_around()
            case Restarted():
                super()._handle(given)
                self.border.guests.begin()
            case _:
                super()._handle(given)

    def _fired(self, timer: str) -> None:
        if not timer.startswith(TIMER):
            super()._fired(timer)
        elif self.border.timers.take(timer):
            self.border.guests.fired(timer.removeprefix(TIMER))
            self.border.admission.look_around()
