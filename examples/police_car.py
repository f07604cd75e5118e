"""A police car on a call hears of a traffic light from farther away than other cars do (STEAM, section 3.2).

roamcast sim examples/police_car.toml

The paper leaves proximities that consumers define to future work. Here the light announces its type without a
proximity, and each vehicle says from how far it wants to hear of lights, in a region that moves with it.
"""

from roamcast import Anchored, Circle, ContentType, Event, EventType, Point, Port, Scope

LIGHT = EventType("traffic/light", {"green": ContentType.BOOLEAN})


class Light:
    def start(self, port: Port) -> None:
        self.port = port
        port.announce(LIGHT)
        port.every(1, self.show)

    def show(self) -> None:
        self.port.raise_("traffic/light", {"green": self.port.me.at_us // 1_000_000 % 16 < 8})


class Car:
    RANGE_M = 40

    def start(self, port: Port) -> None:
        self.port = port
        self.told = False
        around_me = Scope(Anchored(Circle(Point(0, 0), self.RANGE_M), port.host))
        port.subscribe("traffic/light", self.see, "approaching(publisher.position)", publishers=around_me)

    def see(self, event: Event) -> None:
        if not self.told:
            here, light = self.port.position("see"), event.publisher.position
            self.port.say(f"a light {abs(light.x - here.x):.0f} m ahead")
        self.told = True


class PoliceCar(Car):
    RANGE_M = 150
