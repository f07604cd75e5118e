"""A water gauge, and people near it who want to know when the water is high: nodes of a LAN.

The gauge reads a number from a file, as the drivers of Linux write them, and tells it to whoever is within 500 m.
What it tells lasts until the next reading, so somebody who comes near in between hears of it at once. README.md has
the steps.
"""

from pathlib import Path

from roamcast import Circle, ContentType, Event, EventType, Point, Port

WATER = EventType("water", {"level_m": ContentType.DOUBLE})
SENSOR = Path("level.txt")
PERIOD_S = 5


class Gauge:
    def start(self, port: Port) -> None:
        self.port = port
        port.announce(WATER, Circle(Point(0, 0), 500), stationary=True)
        port.every(PERIOD_S, self.tell)

    def tell(self) -> None:
        # A sensor that is gone ends the node, and who started it (systemd) starts it again.
        reading = SENSOR.read_text(encoding="ascii").strip()
        if not reading:
            # Somebody is just writing it.
            return
        self.port.raise_("water", {"level_m": float(reading)}, lifetime_s=PERIOD_S)
        self.port.say(f"the water stands at {float(reading):.2f} m")


class Watcher:
    def start(self, port: Port) -> None:
        self.port = port
        port.subscribe("water", self.warn, "level_m > 2")

    def warn(self, event: Event) -> None:
        self.port.say(f"high water at {event.publisher.host}: {event.attributes['level_m']:.2f} m")
