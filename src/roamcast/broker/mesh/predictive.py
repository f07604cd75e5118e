"""Predictive forwarding: every event goes at once to the broker in whose cell its client will be (M5, IV.B)."""

from msgspec.structs import replace

from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.messages import Forwarded, Numbered
from roamcast.broker.session import Session
from roamcast.node.boundary import Does


class Predictive(MeshHandover):
    def chase(self, now_us: int, session: Session, numbered: Numbered) -> list[Does]:
        if session.attachment.trip is None:
            return []
        forwarded = Forwarded(session.client, replace(numbered, epoch=session.epoch), session.attachment.trip.status)
        return self.forward(now_us, forwarded, self.grid.broker(self._predicted(now_us, session.attachment.trip)))
