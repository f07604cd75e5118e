"""A platoon: vehicles behind a leader drive as it does, in a proximity that moves with it (STEAM, section 3.1).

roamcast sim examples/platoon.toml
"""

from roamcast import Circle, ContentType, Event, EventType, Point, Port

PACE = EventType("platoon/pace", {"road": ContentType.STRING, "speed": ContentType.DOUBLE})
BRAKES_S = 20


class Leader:
    """Drives at 20 m/s, and asks for 15 when it comes to roadworks."""

    def start(self, port: Port) -> None:
        self.port = port
        self.speed = 20.0
        port.announce(PACE, Circle(Point(0, 0), 120))
        port.every(1, self.tell)
        port.after(BRAKES_S, self.brake)

    def brake(self) -> None:
        self.speed = 15.0

    def tell(self) -> None:
        self.port.raise_("platoon/pace", {"road": self.port.me.attributes["road"], "speed": self.speed})


class Vehicle:
    """Hears leaders on its own road in its own direction only, and only within the proximity of one."""

    def start(self, port: Port) -> None:
        self.port = port
        self.speed = None
        port.subscribe("platoon/pace", self.keep, "road = me.road")

    def keep(self, event: Event) -> None:
        speed = event.attributes["speed"]
        if speed != self.speed:
            self.port.say(f"I keep {speed:.0f} m/s behind {event.publisher.host}")
        self.speed = speed
