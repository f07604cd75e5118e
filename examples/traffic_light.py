"""A traffic light tells its state to those who drive towards it, within 40 m, and to nobody else (STEAM, 5.2).

    roamcast sim examples/traffic_light.toml

The light's proximity is stationary. A car subscribes once, wherever it is; two filters keep away what it does not
need: its approach, and whether it still drives towards the light.
"""

from roamcast import Circle, ContentType, Event, EventType, Point, Port

LIGHT = EventType(
    "traffic/light",
    {"approach": ContentType.STRING, "green": ContentType.BOOLEAN, "light": ContentType.POSITION},
)
GREEN_S = 8


class Light:
    def start(self, port: Port) -> None:
        self.port = port
        port.announce(LIGHT, Circle(Point(0, 0), 40), stationary=True)
        port.every(1, self.show)

    def show(self) -> None:
        main_road_is_green = self.port.me.at_us // 1_000_000 % (2 * GREEN_S) < GREEN_S
        here = self.port.position("show the light")
        for approach, green in (("main road", main_road_is_green), ("side street", not main_road_is_green)):
            self.port.raise_("traffic/light", {"approach": approach, "green": green, "light": here})


class Car:
    def start(self, port: Port) -> None:
        self.port = port
        port.subscribe("traffic/light", self.see, "approach = me.approach AND approaching(light)")

    def see(self, event: Event) -> None:
        self.port.say("green: I drive on" if event.attributes["green"] else "red: I brake")
