"""Scope: which hosts (C2). A region and a filter over host attributes; both empty means every host."""

from msgspec import Struct

from roamcast.model.filter.tree import Filter
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region
from roamcast.model.values import BadValue

REGIONS = (Anchored, Circle, Box, Polygon)


class Scope(Struct, frozen=True, array_like=True, cache_hash=True):
    """The hosts inside `region` that `filter` accepts; None places no condition.

    Within the filter, plain attributes and `me.` both mean the host under test, and `neighbours.` its neighbours
    (relational properties); an anchored region is where its host is when the scope is evaluated.
    """

    region: Region | None = None
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if self.filter is not None and not isinstance(self.filter, Filter):
            raise BadValue("a scope's filter is a Filter; make one of text with parse_text('...')")
        if self.region is not None and type(self.region) not in REGIONS:
            raise BadValue("a scope's region is a Circle, Box, Polygon or Anchored")


EVERYWHERE = Scope()


def is_everywhere(scope: Scope) -> bool:
    """Most are the one constant; what came over a wire is only equal to it."""
    return scope is EVERYWHERE or scope == EVERYWHERE
