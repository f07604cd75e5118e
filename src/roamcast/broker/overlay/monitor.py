"""The resource monitor (O6; section 3.3): how much of its capacity a broker uses, and for whom.

What was used comes as an input (`gauge.py`): the time that each modulator took, the work for each client, what waits
for others, and memory. Load is the share of the scarcest of the three: of the time, 1 is a broker that works all the
time; in a model, which only counts, it may be more. What a modulator or a client costs moves with it, so that load
is known at once when many come or go: else all clients of a broker would flee to the same one.
"""

from roamcast.broker.overlay.channel import LoadMeasured, SystemChannel
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.node.boundary import Does, Measured, SetTimer

TIMER = "load"


class ResourceMonitor:
    def __init__(self, params: OverlayParams, clients: ClientManager, channel: SystemChannel) -> None:
        self.params = params
        self.clients = clients
        self.channel = channel
        self.used = 0.0
        """The share of its time that the broker worked in the last period, for whatever was here then."""
        self.others = 0.0
        """The part of it that was for nobody in particular."""
        self.queued = 0.0
        """What waits for others, of what may."""
        self.memory = 0.0

    @property
    def busy(self) -> float:
        """Of its time, by what is here now."""
        posts = sum(post.load for post in self.clients.posts.values())
        return self.others + posts + sum(session.load for session in self.clients.sessions.values())

    @property
    def load(self) -> float:
        return max(self.busy, self.queued, self.memory)

    def start(self, now_us: int) -> list[Does]:
        return [SetTimer(TIMER, now_us + microseconds(self.params.load_period_s))]

    def measured(self, now_us: int, given: Measured) -> list[Does]:
        modulators, clients = dict(given.modulators_s), dict(given.clients_s)
        for name, post in self.clients.posts.items():
            post.load = modulators.get(name, 0.0) / given.period_s
        for client, session in self.clients.sessions.items():
            session.load = clients.get(client, 0.0) / given.period_s
        used_s = given.others_s + sum(modulators.values()) + sum(clients.values())
        gone_s = sum(spent_s for client, spent_s in clients.items() if client not in self.clients.sessions)
        self.used = used_s / given.period_s
        # Work for clients whose home is elsewhere stays where they are connected.
        self.others = (given.others_s + gone_s) / given.period_s
        self.queued = given.queued_messages / self.params.queued_messages_max
        self.memory = given.memory_bytes / self.params.memory_bytes_max
        loads = tuple((name, post.load) for name, post in self.clients.posts.items())
        return self.channel.publish(now_us, LoadMeasured(self.load, loads))
