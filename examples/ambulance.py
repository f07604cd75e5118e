"""An ambulance warns whoever is within 250 m of it while it drives; its proximity moves with it (STEAM, scenario B).

roamcast sim examples/ambulance.toml
"""

from roamcast import Circle, ContentType, Event, EventType, Point, Port

WARNING = EventType("ambulance/warning", {"speed": ContentType.DOUBLE})


class Ambulance:
    def start(self, port: Port) -> None:
        port.announce(WARNING, Circle(Point(0, 0), 250))
        port.every(1, lambda: port.raise_("ambulance/warning", {"speed": port.me.velocity.speed}))


class Car:
    def start(self, port: Port) -> None:
        self.port = port
        self.yielding = False
        port.subscribe("ambulance/warning", self.yield_way, "approaching(publisher.position)")
        port.subscribe("ambulance/warning", self.drive_on, "receding(publisher.position)")

    def yield_way(self, event: Event) -> None:
        if not self.yielding:
            self.yielding = True
            self.port.say(f"an ambulance comes nearer at {event.attributes['speed']:.0f} m/s: I let it pass")

    def drive_on(self, event: Event) -> None:
        if self.yielding:
            self.yielding = False
            self.port.say("it has passed: I drive on")
