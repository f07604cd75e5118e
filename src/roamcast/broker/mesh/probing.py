"""Periodic probing, a baseline of paper M (M8): a client asks its broker for new events every few seconds.

The serving broker keeps whatever comes, even while the client is in its own cell, and answers each probe with what
the client lacks, one event a packet, to the broker through which the probe came.
"""

from msgspec.structs import replace

from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.prediction import Status
from roamcast.broker.messages import Forwarded, Polled
from roamcast.node.boundary import Does


class Probing(MeshHandover):
    def waits(self, status: Status | None) -> bool:
        return True

    def polled(self, now_us: int, polled: Polled) -> list[Does]:
        session = self.border.sessions.get(polled.client)
        if session is None or session.epoch != polled.epoch or session.attachment.awaits is not None:
            return []
        session.window.acknowledge(polled.after)
        effects: list[Does] = []
        for numbered in session.lacking(polled.after):
            forwarded = Forwarded(polled.client, replace(numbered, epoch=session.epoch))
            effects += self.forward(now_us, forwarded, polled.at)
        return effects
