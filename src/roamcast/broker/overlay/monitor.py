"""The resource monitor (O6; section 3.3): how much of its capacity a broker uses, and for whom.

A node reads no clock, so work is counted: each event that a modulator takes costs a fixed time. Load is the share of
the time that this work took, over the last period; above 1 the broker cannot keep up. What a modulator costs moves
with it, so that load is known at once when many come or go: else all clients of a broker would flee to the same one.
"""

from roamcast.broker.overlay.channel import LoadMeasured, SystemChannel
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.node.boundary import Does, SetTimer

TIMER = "load"


class ResourceMonitor:
    def __init__(self, params: OverlayParams, clients: ClientManager, channel: SystemChannel) -> None:
        self.params = params
        self.clients = clients
        self.channel = channel
        self.used = 0.0
        """As measured, by whatever was here during the last period."""

    @property
    def load(self) -> float:
        """By what is here now."""
        return sum(post.load for post in self.clients.posts.values())

    def start(self, now_us: int) -> list[Does]:
        return [SetTimer(TIMER, now_us + microseconds(self.params.load_period_s))]

    def measure(self, now_us: int) -> list[Does]:
        share = self.params.event_cost_ms / 1_000 / self.params.load_period_s
        worked, self.clients.worked = self.clients.worked, 0
        for post in self.clients.posts.values():
            worked += post.taken
            post.load, post.taken = post.taken * share, 0
        self.used = worked * share
        loads = tuple((name, post.load) for name, post in self.clients.posts.items())
        return [*self.start(now_us), *self.channel.publish(now_us, LoadMeasured(self.load, loads))]
