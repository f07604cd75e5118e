"""Which adaptors a broker has. A new one is a class like these and one line here."""

from roamcast.broker.overlay.adaptors.home import HomeBrokerAdaptor
from roamcast.broker.overlay.adaptors.load import LoadAdaptor
from roamcast.broker.overlay.adaptors.placement import PlacementAdaptor
from roamcast.broker.overlay.adaptors.topology import TopologyAdaptor
from roamcast.broker.overlay.channel import Adaptor
from roamcast.broker.overlay.services import Services


def make_adaptors(services: Services) -> list[Adaptor]:
    params = services.params
    adaptors: list[Adaptor] = [TopologyAdaptor(services)]
    if params.home == "adaptive":
        adaptors.append(HomeBrokerAdaptor(services))
    if params.offload:
        adaptors.append(LoadAdaptor(services))
    if params.place:
        adaptors.append(PlacementAdaptor(services))
    return adaptors
