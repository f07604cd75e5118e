"""Search and rescue: whoever finds somebody calls those who are near and carry a stretcher.

    roamcast sim examples/search_and_rescue.toml

A find matters around where it was made (context of relevance), every searcher asks for what happens around its own
part of the area (context of interest), and only those with a stretcher are to come (subscription domain).
"""

from roamcast import Box, ContentType, Event, EventType, Point, Port, Scope, parse_text

FIND = EventType("rescue/find", {"persons": ContentType.INTEGER, "found": ContentType.POSITION})


class Searcher:
    def start(self, port: Port) -> None:
        self.port = port
        port.announce(FIND)
        here = port.position("search")
        around_me = Box(Point(here.x - 150, here.y - 150), Point(here.x + 150, here.y + 150))
        port.subscribe("rescue/find", self.help, interest=Scope(around_me))
        if "finds_after_s" in port.me.attributes:
            port.after(port.me.attributes["finds_after_s"], self.find)

    def find(self) -> None:
        here = self.port.position("find")
        near = Box(Point(here.x - 120, here.y - 120), Point(here.x + 120, here.y + 120))
        equipped = Scope(None, parse_text("stretcher = TRUE"))
        content = {"persons": 2, "found": here}
        self.port.say("I found two persons")
        self.port.raise_("rescue/find", content, lifetime_s=20, relevance=Scope(near), audience=equipped)

    def help(self, event: Event) -> None:
        if event.publisher.host != self.port.host:
            self.port.say(f"I come to {event.publisher.host} with a stretcher")
