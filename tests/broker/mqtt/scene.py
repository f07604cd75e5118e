"""Short stories on the stage: a few brokers and clients, and what a client has taken once everything is at rest."""

import itertools
import json
from typing import TypeVar

from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.params import BrokerParams
from roamcast.model.places import MovementGraph
from roamcast.mqtt.packets import AnyPacket, Disconnect, PubAck, Publish, PubRec, SubAck, Unsubscribe
from roamcast.mqtt.reasons import Reason
from roamcast.server.tracking import TrackingParams
from tests.broker.mqtt.stage import SimClient, Stage

REST_S = 0.5
Packet = TypeVar("Packet", bound=AnyPacket)


class Scene:
    """Brokers in a row: `Scene("abc")` links a to b and b to c."""

    def __init__(
        self,
        brokers: str = "a",
        params: CoreParams | None = None,
        graph: MovementGraph | None = None,
        seed: int = 1,
        broker_params: BrokerParams | None = None,
        tracking: TrackingParams | None = None,
    ) -> None:
        edges = tuple(itertools.pairwise(brokers))
        self.stage = Stage(seed, edges, broker_params, params, graph, tracking=tracking)
        self.rest()

    def rest(self, seconds: float = REST_S) -> None:
        self.stage.run(seconds)

    def client(self, name: str, broker: str = "a", expiry_s: int = 100_000) -> SimClient:
        client = SimClient(self.stage, name, expiry_s)
        client.connect(broker)
        self.rest()
        assert client.ready, f"{name} is not let in: {client.connacks}"
        return client

    def move(self, client: SimClient, broker: str) -> None:
        client.connect(broker)
        self.rest(2.0)
        assert client.ready, f"{client.name} is not let in at {broker}: {client.connacks[-1:]}"

    def subscribe(
        self, client: SimClient, pattern: str, qos: int = 1, subscription_id: int | None = None, **properties: str
    ) -> tuple[Reason, ...]:
        client.subscribe(pattern, qos, subscription_id, **properties)
        self.rest()
        return tuple(last(client, SubAck).reasons)

    def unsubscribe(self, client: SimClient, pattern: str) -> None:
        client._say(Unsubscribe(999, (pattern,)))
        self.rest()

    def publish(
        self,
        client: SimClient,
        topic: str,
        payload: bytes | dict[str, object] = b"",
        qos: int = 1,
        retain: bool = False,
        expiry_s: int | None = None,
        **properties: str,
    ) -> Reason | None:
        """The reason with which it was acknowledged; None of QoS 0."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        before = len(client.heard)
        client.publish(topic, body, qos, retain, expiry_s, **properties)
        self.rest()
        answers = [each.reason for each in client.heard[before:] if isinstance(each, PubAck | PubRec)]
        return answers[0] if qos else None

    def report(self, client: SimClient, **said: object) -> Reason | None:
        return self.publish(client, "$roam/me", said)

    def remarks(self, broker: str = "a") -> list[str]:
        return [what for what, _ in self.stage.brokers[broker].monitor.said]


def last(client: SimClient, kind: type[Packet]) -> Packet:
    return next(each for each in reversed(client.heard) if isinstance(each, kind))


def published(client: SimClient) -> list[Publish]:
    return [each for each in client.heard if isinstance(each, Publish)]


def dismissal(client: SimClient) -> Disconnect:
    return last(client, Disconnect)
