"""Free parking places: a place tells of itself while it is free; drivers hear of those near where they are going.

    roamcast sim examples/parking.toml

The event matters around the place (context of relevance); when the place is taken, it withdraws the event. A driver
who is still far away asks for what is free around the destination (context of interest), at a price that fits the
budget.
"""

from roamcast import Box, ContentType, Event, EventType, Point, Port, Scope

FREE = EventType("parking/free", {"street": ContentType.STRING, "price": ContentType.DOUBLE})


def around(place: Point, metres: float) -> Scope:
    return Scope(Box(Point(place.x - metres, place.y - metres), Point(place.x + metres, place.y + metres)))


class Place:
    def start(self, port: Port) -> None:
        self.port = port
        port.announce(FREE)
        port.after(port.me.attributes["free_after_s"], self.offer)

    def offer(self) -> None:
        mine = self.port.me.attributes
        content = {"street": mine["street"], "price": mine["price"]}
        here = around(self.port.position("offer"), 60)
        free = self.port.raise_("parking/free", content, lifetime_s=3_600, relevance=here)
        self.port.after(mine["free_for_s"], lambda: self.port.withdraw(free.id))


class Driver:
    def start(self, port: Port) -> None:
        self.port = port
        self.found: list[str] = []
        destination = Point(500, 200)
        port.subscribe("parking/free", self.consider, "price <= me.budget", interest=around(destination, 150))

    def consider(self, event: Event) -> None:
        street = str(event.attributes["street"])
        self.port.say(f"free in {street} for {event.attributes['price']:.2f}")
        self.found.append(street)
