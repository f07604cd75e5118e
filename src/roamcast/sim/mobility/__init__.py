"""How simulated hosts move. `legs` is the interface; every model stands in a module of its own.

`MobilityModel` is what a scenario may name by `kind`: random-waypoint, static, road, routes, streets, grid, places or
trace.
"""

from typing import TypeAlias

from roamcast.sim.mobility.grid import GridWalk, PlaceWalk
from roamcast.sim.mobility.legs import FOREVER_US, Leg, Mobility, Track
from roamcast.sim.mobility.road import Road, Route, Routes
from roamcast.sim.mobility.static import Static
from roamcast.sim.mobility.streets import StreetGraph, Streets
from roamcast.sim.mobility.trace_formats import BadTrace
from roamcast.sim.mobility.traces import Trace, TraceReplay, load_trace
from roamcast.sim.mobility.waypoint import RandomWaypoint

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
