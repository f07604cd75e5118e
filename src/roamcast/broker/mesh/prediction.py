"""Where a client will be, and which broker can hand it an event: mobility status and Algorithm 1 (M2, M5, M10).

A client's status (where it is, where it goes, how fast, how long it rests there, how long it still rests here) makes
a *trip*: the cells it will pass, each with the time at which it leaves. Three kinds of clients make one:

    it tells its destination                 the straight way there, and then it stays;
    it tells none, but there is a movement   the likeliest way from cell to cell, each for its mean residence time;
    model learned from traces
    neither                                  straight on with its velocity.

Algorithm 1 takes the first cell of the trip that the client has not left by the time the event would be there. The
paper tests whether the client is in that cell at that moment; where the client crosses a border while the event is
under way, this can fail for both cells. Here the event then arrives a moment early, and the broker keeps it.
"""

from collections.abc import Iterator

from msgspec import Struct

from roamcast.broker.mesh.grid import Grid, hops
from roamcast.model.context import Context
from roamcast.model.movement import MovementModel, cell_name, cell_named
from roamcast.model.space import Cell, Space
from roamcast.model.values import BadValue, Point, Velocity, check_point, check_velocity

FOR_EVER_S = float("inf")
AT_REST = Velocity(0.0, 0.0)
HORIZON_S = 3_600.0
"""How far ahead somebody is followed who tells only a velocity."""

TRIP_S_MAX = 7 * 86_400.0
"""Nobody is waited for longer than a week, however slow it says it is."""


class Status(Struct, frozen=True, array_like=True):
    """The 5-tuple <C, D, V, P, R> of section IV.A, at a time."""

    at_us: int
    position: Point
    destination: Point | None = None
    velocity: Velocity | None = None
    pause_us: int = 0
    pause_left_us: int = 0
    stayed_us: int = 0
    """How long it has been in its cell, as far as it knows."""

    def __post_init__(self) -> None:
        for point in (self.position, self.destination):
            if point is not None:
                check_point(point, "mobility status")
        if self.velocity is not None:
            check_velocity(self.velocity, "mobility status")
        if min(self.pause_us, self.pause_left_us, self.stayed_us) < 0:
            raise BadValue("mobility status: a pause or a stay takes 0 µs or more")

    @property
    def speed_mps(self) -> float:
        return 0.0 if self.velocity is None else self.velocity.speed

    def same_trip(self, other: "Status") -> bool:
        """Whether nothing changed that a prediction depends on."""
        return (self.destination, self.velocity, self.pause_us) == (
            other.destination,
            other.velocity,
            other.pause_us,
        ) and (self.pause_left_us > 0) == (other.pause_left_us > 0)

    def travel_s(self, space: Space) -> float:
        """How long until the client is where it goes; 0 for who goes nowhere, or tells not where."""
        if self.destination is None or self.destination == self.position or self.speed_mps == 0:
            return 0.0
        return self.pause_left_us / 1e6 + space.distance_m(self.position, self.destination) / self.speed_mps


def status_of(context: Context, now_us: int, space: Space) -> Status | None:
    """What a host knows of itself; None while it does not know where it is.

    Who rests goes on when the rest is over, and who should have arrived has arrived, until it hears otherwise.
    """
    if context.position is None:
        return None
    velocity, to = context.velocity or AT_REST, context.destination
    moving_us = max(0, now_us - context.at_us - context.pause_left_us)
    left_us = max(0, context.pause_left_us - (now_us - context.at_us))
    gone_m = velocity.speed * moving_us / 1e6
    if to is not None and gone_m > 0 and gone_m >= space.distance_m(context.position, to):
        return Status(now_us, to, to, AT_REST, context.pause_us, left_us)
    here = space.moved(context.position, velocity.east * moving_us / 1e6, velocity.north * moving_us / 1e6)
    return Status(now_us, here, to, context.velocity, context.pause_us, left_us)


class Stay(Struct, frozen=True):
    cell: Cell
    leaves_s: float
    """After the time of the status."""


class Trip:
    def __init__(self, status: Status, stays: tuple[Stay, ...]) -> None:
        self.status = status
        self.stays = stays

    def after_s(self, now_us: int) -> float:
        """`T` of Algorithm 1."""
        return max(0.0, (now_us - self.status.at_us) / 1e6)

    def left_s(self, now_us: int, space: Space) -> float:
        """How long the client is still under way."""
        return max(0.0, self.status.travel_s(space) - self.after_s(now_us))

    def forwarding_cell(self, now_us: int, here: Cell, hop_delay_s: float) -> Cell:
        """Algorithm 1, seen from the broker of cell `here`."""
        elapsed_s = self.after_s(now_us)
        for stay in self.stays:
            if elapsed_s + hops(here, stay.cell) * hop_delay_s < stay.leaves_s:
                return stay.cell
        return self.stays[-1].cell


def trip_of(status: Status, grid: Grid, model: MovementModel | None, stays_max: int) -> Trip:
    if status.destination is not None:
        stays = straight(status, status.destination, grid)
    elif model is not None and model.residence_s(cell_name(grid.cell_at(status.position))) is not None:
        stays = learned(status, grid, model)
    elif status.velocity is not None and status.speed_mps > 0:
        ahead_s = min(HORIZON_S, stays_max * grid.cell_m / status.speed_mps)
        east_m, north_m = status.velocity.east * ahead_s, status.velocity.north * ahead_s
        stays = straight(status, grid.space.moved(status.position, east_m, north_m), grid)
    else:
        stays = iter([Stay(grid.cell_at(status.position), FOR_EVER_S)])
    found = [stay for stay, _ in zip(stays, range(stays_max), strict=False)]
    return Trip(status, tuple(found))


def straight(status: Status, destination: Point, grid: Grid) -> Iterator[Stay]:
    """Rest, go, and stay where one wanted to go."""
    if status.speed_mps == 0 or destination == status.position:
        yield Stay(grid.cell_at(status.position), FOR_EVER_S)
        return
    travel_s = grid.space.distance_m(status.position, destination) / status.speed_mps
    passed = list(grid.passed(status.position, destination))
    for cell, share in passed[:-1]:
        yield Stay(cell, status.pause_left_us / 1e6 + travel_s * share)
    yield Stay(passed[-1][0], FOR_EVER_S)


def learned(status: Status, grid: Grid, model: MovementModel) -> Iterator[Stay]:
    """From cell to cell as most went; where nobody was seen to leave, one stays."""
    place: str | None = cell_name(grid.cell_at(status.position))
    leaves_s = (status.pause_left_us - status.stayed_us) / 1e6
    while place is not None:
        following = model.likeliest(place)
        # Who is somewhere longer than most may leave at any moment.
        leaves_s = max(0.0, leaves_s + (model.residence_s(place) or 0.0))
        yield Stay(clamped(cell_named(place), grid), FOR_EVER_S if following is None else leaves_s)
        place = following


def clamped(cell: Cell, grid: Grid) -> Cell:
    """A model may know cells beyond this grid."""
    return min(max(cell[0], 0), grid.columns - 1), min(max(cell[1], 0), grid.rows - 1)
