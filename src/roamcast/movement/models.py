"""How simulated hosts move. `legs` is the interface; every model stands in a module of its own.

`MobilityModel` is what a scenario may name by `kind`: random-waypoint, static, road, routes, streets, grid, places or
trace.
"""

from typing import TypeAlias

from roamcast.movement.grid import GridWalk, PlaceWalk
from roamcast.movement.legs import FOREVER_US, Leg, Mobility, Track
from roamcast.movement.road import Road, Route, Routes
from roamcast.movement.static import Static
from roamcast.movement.streets import StreetGraph, Streets
from roamcast.movement.trace_formats import BadTrace
from roamcast.movement.traces import Trace, TraceReplay, load_trace
from roamcast.movement.waypoint import RandomWaypoint

MobilityModel: TypeAlias = RandomWaypoint | Static | Road | Routes | Streets | GridWalk | PlaceWalk | TraceReplay

__all__ = [
    "FOREVER_US",
    "BadTrace",
    "GridWalk",
    "Leg",
    "Mobility",
    "MobilityModel",
    "PlaceWalk",
    "RandomWaypoint",
    "Road",
    "Route",
    "Routes",
    "Static",
    "StreetGraph",
    "Streets",
    "Trace",
    "TraceReplay",
    "Track",
    "load_trace",
]
