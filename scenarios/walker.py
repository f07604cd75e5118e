"""A client that walks from place to place and wants what happens where it is (R4); for the `rebeca-*` scenarios."""

from roamcast import Event, Port

PLACES = 20


class Walker:
    """Around a ring of places, p00 to p19; `stay_s` at each."""

    def start(self, port: Port) -> None:
        self.port = port
        self.steps = 0
        port.set(place="p00")
        port.subscribe("rooms/climate", self.notice, "place IN myloc(0)")
        port.after(port.me.attributes["stay_s"], self.walk_on)

    def walk_on(self) -> None:
        self.steps += 1
        self.port.set(place=f"p{self.steps % PLACES:02}")
        self.port.after(self.port.me.attributes["stay_s"], self.walk_on)

    def notice(self, event: Event) -> None:
        """It only counts that the event arrived."""
