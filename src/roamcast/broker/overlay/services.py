"""What the components of a broker offer to its adaptors."""

from random import Random

from msgspec import Struct

from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.departing import Departing
from roamcast.broker.overlay.monitor import ResourceMonitor
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.search import Searching


class Services(Struct, frozen=True):
    host: str
    params: OverlayParams
    rng: Random
    brokers: BrokerManager
    clients: ClientManager
    monitor: ResourceMonitor
    departing: Departing
    searching: Searching
