"""Positions of clients as events: `$roam/position/<client>`, for whoever subscribes (docs/PROTOCOL.md, section 19).

A position is told with QoS 0, on behalf of the client, at the end of the tick in which it was reported; of several
reports of a tick the last. Whoever subscribes later is given the last known one of each client here, as if retained.
While nobody subscribes, a move costs one comparison (`Positions.moved`).

A client can have itself shown coarsely, or not at all, by two attributes of its report:

    position_hidden: true     it is not shown
    position_grid_m: 500      it is shown in the middle of its cell of a grid, and told when it is in another one
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from roamcast.broker.mqtt.audience import POSITIONS
from roamcast.broker.mqtt.events import plain
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Earth, Space
from roamcast.model.subject import is_pattern, subject_matches
from roamcast.model.values import Point
from roamcast.mqtt.messages import Message
from roamcast.mqtt.topics import client_of_position, position_topic

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

HIDDEN = "position_hidden"
GRID_M = "position_grid_m"
GRID_M_MIN, GRID_M_MAX = 0.001, 1e9
"""A finer or wider grid is taken as one of these."""
DEGREE_M = 111_320.0
"""Of latitude, and of longitude at the equator: good enough to blur."""

_encoder = msgspec.json.Encoder()


class Positions:
    """Who has moved in this tick, as far as anybody wants to know. It belongs to a life of the process."""

    def __init__(self, border: "MqttBorder") -> None:
        self.border = border
        self.record: Callable[[Context], None] | None = None
        """Where tracks are kept, it is told of every move."""
        self.waiting: dict[str, Context] = {}
        """By client that has moved, where it was before."""

    def moved(self, before: Context, after: Context) -> None:
        border = self.border
        if self.record is not None:
            self.record(after)
        if not border.tells_positions:
            return
        if border.audience.positions or (border.has_neighbours() and self._goes_to_neighbours(before.host)):
            self.waiting.setdefault(before.host, before)

    def _goes_to_neighbours(self, client: str) -> bool:
        router = self.border.neighbours.router
        return router.may_leave_below(f"{POSITIONS}#") and router.may_leave(position_topic(client))

    def tell(self) -> None:
        """All that have moved."""
        moved, self.waiting = self.waiting, {}
        for client, before in moved.items():
            session = self.border.sessions.get(client)
            if session is None:
                continue
            told, now = shown(before, self.border.space), shown(session.context, self.border.space)
            if now is None or (is_coarse(now) and told is not None and looks_alike(told, now)):
                continue
            travels = self.border.has_neighbours() and self._goes_to_neighbours(client)
            event, message = position_of(self.border, now, travels)
            self.border.publishing.pass_for(session, event, message)


def last_known(border: "MqttBorder", pattern: str) -> Iterator[tuple[Event, Message]]:
    """Of the clients here that a topic filter matches."""
    if not pattern.startswith(POSITIONS) or not border.tells_positions:
        return
    if is_pattern(pattern):
        sessions = [
            each for each in border.sessions.values() if subject_matches(pattern, position_topic(each.client))
        ]
    else:
        found = border.sessions.get(client_of_position(pattern))
        sessions = [] if found is None else [found]
    for session in sessions:
        context = shown(session.context, border.space)
        if context is not None and context.position is not None:
            yield position_of(border, context, False)


def position_of(border: "MqttBorder", context: Context, travels: bool) -> tuple[Event, Message]:
    said: dict[str, object] = {"client": context.host, "position": None, "time": context.at_us}
    if context.position is not None:
        said["position"] = [context.position.x, context.position.y]
    if context.velocity is not None:
        said["velocity"] = [context.velocity.east, context.velocity.north]
    for name, value in context.attributes.items():
        if name not in (HIDDEN, GRID_M):
            said.setdefault(name, plain(value))
    message = Message(position_topic(context.host), _encoder.encode(said), 0)
    return border.events.passing_event_of(context, message, border.now_us, travels), message


# What a client has of itself shown.


def shown(context: Context, space: Space) -> Context | None:
    """A client as others may see it; None if it may not be seen."""
    attributes = context.attributes
    if attributes.get(HIDDEN) is True:
        return None
    grid_m = attributes.get(GRID_M)
    if isinstance(grid_m, bool) or not isinstance(grid_m, int | float) or not grid_m > 0:
        return context
    grid_m = max(GRID_M_MIN, min(GRID_M_MAX, float(grid_m)))
    position = None if context.position is None else middle_of_cell(context.position, grid_m, space)
    return Context(context.host, position, context.at_us, attributes=attributes)


def judged(context: Context, space: Space) -> Context:
    """What others may search: a place that is not shown must not be found by a filter either."""
    found = shown(context, space)
    return Context(context.host, None, context.at_us, attributes=context.attributes) if found is None else found


def is_coarse(context: Context) -> bool:
    return GRID_M in context.attributes


def looks_alike(before: Context, after: Context) -> bool:
    return (before.position, before.attributes) == (after.position, after.attributes)


def middle_of_cell(position: Point, grid_m: float, space: Space) -> Point:
    if not isinstance(space, Earth):
        return Point(middle(position.x, grid_m), middle(position.y, grid_m))
    latitude = max(-90.0, min(90.0, middle(position.y, grid_m / DEGREE_M)))
    # All of a row have cells of one width, or the cell would tell where in it somebody is.
    width = min(360.0, grid_m / (DEGREE_M * max(1e-6, math.cos(math.radians(latitude)))))
    return Point(max(-180.0, min(180.0, middle(position.x, width))), latitude)


def middle(value: float, size: float) -> float:
    return (math.floor(value / size) + 0.5) * size
