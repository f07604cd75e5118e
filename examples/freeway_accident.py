"""An accident on a freeway: whom it concerns, who must come, and who has to leave at the last exit.

    roamcast sim examples/freeway_accident.toml

This is the scenario of context-aware publish/subscribe (section 2.3). A crashed car publishes an event that stays for
a minute and matters to eastbound traffic before the accident (context of relevance). A car that has not entered the
freeway yet asks for what matters on its way (context of interest). Patrol stations take only accidents of their own
section (publication domain). The patrol's order concerns cars with one occupant only (subscription domain).
"""

from roamcast import Box, ContentType, Event, EventType, Point, Port, Scope, parse_text

ACCIDENT = EventType("freeway/accident", {"place": ContentType.STRING})
ORDER = EventType("freeway/order", {"text": ContentType.STRING})
BEFORE_THE_ACCIDENT = Box(Point(200, -20), Point(1200, 20))
EASTBOUND = parse_text("direction = 'east'")


class Crashed:
    """Stands at 1,200 m, tells of its accident once."""

    def start(self, port: Port) -> None:
        port.announce(ACCIDENT)
        relevance = Scope(BEFORE_THE_ACCIDENT, EASTBOUND)
        port.after(
            5, lambda: port.raise_("freeway/accident", {"place": "mile 32"}, lifetime_s=60, relevance=relevance)
        )


class Car:
    """Drives on the freeway and wants to know what matters where it is."""

    def start(self, port: Port) -> None:
        around_the_freeway = Scope(Box(Point(0, -30), Point(1300, 30)))
        port.subscribe(
            "freeway/accident",
            lambda event: port.say(f"accident at {event.attributes['place']}"),
            interest=around_the_freeway,
        )
        port.subscribe(
            "freeway/order",
            lambda event: port.say(f"ordered: {event.attributes['text']}"),
            interest=around_the_freeway,
        )


class Planner:
    """Car X: still in its parking lot, asks for what happens on the road it is going to take."""

    def start(self, port: Port) -> None:
        my_way = Scope(Box(Point(600, -20), Point(1000, 20)))
        port.subscribe(
            "freeway/accident",
            lambda event: port.say(f"accident at {event.attributes['place']}: I take another road"),
            interest=my_way,
        )


class Station:
    """A patrol station answers for the accidents of its own section, whatever their relevance."""

    def start(self, port: Port) -> None:
        self.port = port
        low, high = float(port.me.attributes["section_from"]), float(port.me.attributes["section_to"])
        mine = Scope(Box(Point(low, -20), Point(high, 20)))
        port.announce(ORDER)
        port.subscribe("freeway/accident", self.go, interest=Scope(BEFORE_THE_ACCIDENT), publishers=mine)

    def go(self, event: Event) -> None:
        self.port.say(f"we go to the accident at {event.attributes['place']}")
        self.port.raise_(
            "freeway/order",
            {"text": "leave at the next exit"},
            lifetime_s=30,
            relevance=Scope(BEFORE_THE_ACCIDENT),
            audience=Scope(None, parse_text("occupants < 2")),
        )
