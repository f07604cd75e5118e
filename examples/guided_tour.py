"""A guided tour: each site tells its story to those who have arrived at it, in their language (STEAM, section 3).

roamcast sim examples/guided_tour.toml

A story lasts, so whoever comes later hears it too, once. The guide speaks to the group around her, wherever it is.
"""

from roamcast import Circle, ContentType, Event, EventType, Point, Port

STORY = EventType("tour/story", {"language": ContentType.STRING, "story": ContentType.STRING})
WORD = EventType("tour/word", {"word": ContentType.STRING})


class Site:
    """Has its stories in its attributes, by language."""

    def start(self, port: Port) -> None:
        port.announce(STORY, Circle(Point(0, 0), 50), stationary=True)
        for language in ("en", "fi"):
            story = port.me.attributes[language]
            port.raise_("tour/story", {"language": language, "story": story}, lifetime_s=3600)


class Guide:
    def start(self, port: Port) -> None:
        port.announce(WORD, Circle(Point(0, 0), 30))
        port.after(60, lambda: port.raise_("tour/word", {"word": "to the left you see the harbour"}))


class Tourist:
    def start(self, port: Port) -> None:
        self.port = port
        port.subscribe("tour/story", self.listen, "language = me.language")
        port.subscribe("tour/word", self.follow)

    def listen(self, event: Event) -> None:
        self.port.say(f"I hear: {event.attributes['story']}")

    def follow(self, event: Event) -> None:
        self.port.say(f"the guide says: {event.attributes['word']}")
