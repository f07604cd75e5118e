"""Batch forwarding, a baseline of paper M (M8): what comes while a client moves waits for the end of its trip.

The old serving broker then forwards all of it to the new one, one event a packet, with the handover.
"""

from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.prediction import Status


class Batch(MeshHandover):
    def waits(self, status: Status | None) -> bool:
        return status is not None and status.speed_mps > 0
