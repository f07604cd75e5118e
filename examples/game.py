"""An augmented-reality game: a player's shout reaches the players around her, wherever she runs (STEAM, scenario D).

roamcast sim examples/game.toml
"""

from roamcast import Circle, ContentType, Event, EventType, Point, Port

STATUS = EventType("game/status", {"treasure": ContentType.STRING, "lives": ContentType.INTEGER})


class Captain:
    """Found a treasure and calls her team together, within 150 m of wherever she is."""

    def start(self, port: Port) -> None:
        port.announce(STATUS, Circle(Point(0, 0), 150))
        port.every(5, lambda: port.raise_("game/status", {"treasure": "amber room", "lives": 3}))


class Player:
    def start(self, port: Port) -> None:
        self.port = port
        self.joined = False
        port.subscribe("game/status", self.join, "lives > 0")

    def join(self, event: Event) -> None:
        if not self.joined:
            self.joined = True
            self.port.say(f"I heard of the {event.attributes['treasure']}: I am coming")
