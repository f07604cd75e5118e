"""Brokers that come to know each other: each tells the other what is there, and then every change (O1, O5)."""

from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.departing import Departing
from roamcast.broker.overlay.messages import Met
from roamcast.broker.overlay.params import OverlayParams
from roamcast.node.boundary import Does, Note


class Acquaintance:
    def __init__(
        self, host: str, params: OverlayParams, brokers: BrokerManager, clients: ClientManager, departing: Departing
    ) -> None:
        self.host = host
        self.params = params
        self.brokers = brokers
        self.clients = clients
        self.departing = departing

    def meet(self, now_us: int, broker: str) -> list[Does]:
        """A broker that was not known: it is told of what is here, and of every change from now on."""
        if broker == self.host or broker in self.brokers.told:
            return []
        if len(self.brokers.told) >= self.params.brokers_max:
            return [Note("broker_refused", broker)]
        self.brokers.flows.found_again(broker)
        self.brokers.told[broker] = None
        return self.introduce(now_us, broker)

    def introduce(self, now_us: int, broker: str) -> list[Does]:
        effects = self.brokers.say(now_us, broker, Met())
        for each in self.clients.introduction(self.departing.leaving()):
            effects += self.brokers.say(now_us, broker, each)
        return effects
