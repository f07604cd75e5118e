"""How people write a scope: as a filter over hosts, or as an object with a place in it.

{"circle_m": 200}                     within 200 m of the client that says it, wherever it goes
{"circle": [24.94, 60.17, 500]}       within 500 m of a point
{"box": [24.9, 60.1, 25.0, 60.2]}     west, south, east, north
{"polygon": [[x, y], ...]}
{..., "filter": "kind = 'ambulance'"} and, in addition, only hosts that the filter accepts
"""

from msgspec import Struct

from roamcast.model.filter import Filter, parse_json, parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, check_region
from roamcast.model.scope import Scope
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Point

ORIGIN = Point(0.0, 0.0)


class ScopeText(Struct, frozen=True, forbid_unknown_fields=True):
    circle_m: float | None = None
    circle: tuple[float, float, float] | None = None
    box: tuple[float, float, float, float] | None = None
    polygon: tuple[tuple[float, float], ...] | None = None
    filter: str | None = None

    def region(self, host: str, space: Space) -> Region | None:
        """The place, as `host` says it; raises `BadValue`."""
        found = self._shape(host)
        if found is not None:
            check_region(found, space)
        return found

    def scope(self, host: str, space: Space) -> Scope:
        """Raises `BadValue` or `BadFilter`."""
        return Scope(self.region(host, space), None if self.filter is None else read_filter(self.filter))

    def _shape(self, host: str) -> Region | None:
        named = [each for each in ("circle_m", "circle", "box", "polygon") if getattr(self, each) is not None]
        if len(named) > 1:
            raise BadValue(f"{' and '.join(named)}: give one place")
        if self.circle_m is not None:
            return Anchored(Circle(ORIGIN, self.circle_m), host)
        if self.circle is not None:
            x, y, radius_m = self.circle
            return Circle(Point(x, y), radius_m)
        if self.box is not None:
            west, south, east, north = self.box
            return Box(Point(west, south), Point(east, north))
        if self.polygon is not None:
            return Polygon(tuple(Point(x, y) for x, y in self.polygon))
        return None


def read_filter(text: str) -> Filter:
    """CQL2 as text or JSON; raises `BadFilter`."""
    return parse_json(text) if text.lstrip()[:1] == "{" else parse_text(text)
