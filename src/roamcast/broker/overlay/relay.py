"""A host that is neither broker nor client, and passes on the searches of others."""

from roamcast.broker.overlay.messages import Search
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.search import Relaying
from roamcast.node.boundary import Does, Input, Received


class Relay:
    def __init__(self, host: str, params: OverlayParams) -> None:
        self.relaying = Relaying(host, params)

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Search() as search):
                return self.relaying.hear(search)[1]
            case _:
                return []
