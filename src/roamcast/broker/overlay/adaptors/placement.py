"""The placement adaptor (O9; section 6): a modulator goes where it saves traffic, by what was measured of it.

Places are the brokers on the way from the producers' brokers to the consumer's; what is compared is in
`modulators/placement.py`.
"""

from roamcast.broker.modulators.placement import UNDECIDED, Flow, Opinion, Place, reconsider
from roamcast.broker.overlay.channel import LoadMeasured, SystemEvent
from roamcast.broker.overlay.posts import Post
from roamcast.broker.overlay.services import Services
from roamcast.node.boundary import Does


class PlacementAdaptor:
    interests: tuple[type[SystemEvent], ...] = (LoadMeasured,)

    def __init__(self, services: Services) -> None:
        self.services = services
        self.opinions: dict[str, Opinion] = {}

    def process(self, now_us: int, event: SystemEvent) -> list[Does]:
        posts = self.services.clients.posts
        self.opinions = {name: opinion for name, opinion in self.opinions.items() if name in posts}
        effects: list[Does] = []
        for name, post in list(posts.items()):
            effect = None if post.modulator is None else post.modulator.meter.read(now_us)
            homes = self.services.brokers.directory.homes_of_producers(post.subscription.subscriber)
            if effect is None or not homes or not effect.bytes_in:
                continue
            # By producer nothing is measured: each counts the same.
            flow = Flow(tuple(effect.rate_in / len(homes) for _ in homes), effect.rate_out)
            opinion = self.opinions.get(name, UNDECIDED)
            self.opinions[name], to = reconsider(opinion, flow, self._places(post, homes), self.services.host)
            if to is not None:
                effects += self.services.departing.place(now_us, name, to, "traffic")
        return effects

    def _places(self, post: Post, homes: list[str]) -> list[Place]:
        topology = self.services.brokers.topology
        towards = {home: topology.paths_from(home) for home in dict.fromkeys(homes)}
        brokers = {self.services.host: None}
        for paths in towards.values():
            brokers.update(dict.fromkeys(paths.get(post.home, ())))
        behind = topology.paths_from(post.home)
        places = []
        for broker in brokers:
            paths_here = [towards[home].get(broker) for home in homes]
            known = [path for path in paths_here if path is not None]
            if broker in behind and len(known) == len(homes):
                places.append(Place(broker, tuple(map(topology.effort, known)), topology.effort(behind[broker])))
        return places
