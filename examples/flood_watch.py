"""Flood watch: rain comes in, water depths go out, and only of the part of the land that a rescuer asks about (O1).

    roamcast sim examples/flood_watch.toml
    python examples/flood_watch.py

A weather station sends how much rain fell on each cell of an area. A rescuer wants to know how deep the water stands
where she goes; her modulator, run by a broker on the way to her, keeps the water on the whole terrain, lets it run
downhill, and passes on the depths of her part alone. `Runoff` is that modulator in Python, registered at the brokers;
flood_watch.wat is the same in WebAssembly, to be sent to brokers that do not have it.

Run as a program, this shows what both do, where the brokers would put them by their effect on traffic (O9), and that
one moved in the middle of the storm goes on as if nothing had happened.

A field of cells travels as text, four digits a cell, row by row from the north: tenths of a millimetre of water, or
decimetres of height. Everything is in whole numbers, so that Python and WebAssembly agree to the last digit.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wasmtime import wat2wasm

from roamcast import ContentType, Event, EventType, Port
from roamcast.broker.modulators.interface import derived
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.make import make_modulator
from roamcast.broker.modulators.placement import Flow, along, best
from roamcast.broker.modulators.registry import registered
from roamcast.broker.modulators.spec import ModulatorSpec, Registered, Wasm, spec_to_text
from roamcast.model.context import Context
from roamcast.model.space import Plane, Space
from roamcast.model.values import BadValue, Value

COLUMNS, ROWS = 20, 20
DIGITS = 4
DEEPEST = 9_999
"""A metre of water: four digits hold no more, and it is deep enough."""
HEIGHT_UNIT = 1_000
"""A decimetre in tenths of a millimetre."""
RUNOFF_PERCENT = 60
"""What the soil does not take."""
CODE = Path(__file__).with_suffix(".wat")


def written(cells: Sequence[int]) -> str:
    return "".join(f"{cell:0{DIGITS}d}" for cell in cells)


def read(text: Value | None, count: int) -> list[int]:
    if not isinstance(text, str) or len(text) != DIGITS * count or not (text.isascii() and text.isdecimal()):
        raise BadValue(f"a field of {count} cells is {DIGITS * count} digits")
    return [int(text[at : at + DIGITS]) for at in range(0, len(text), DIGITS)]


def whole(parameters: Mapping[str, Value], name: str, most: int) -> int:
    found = parameters.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= most:
        raise BadValue(f"'{name}' is a whole number from 0 to {most}, not {found!r}")
    return found


@registered("runoff")
class Runoff:
    """Parameters: `columns`, `terrain`, and the part asked about, from `left` and `top` up to before `right` and
    `bottom`."""

    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None:
        self.columns = whole(parameters, "columns", 100)
        terrain = parameters.get("terrain")
        cells = len(terrain) // DIGITS if isinstance(terrain, str) else 0
        if not self.columns or not cells or cells % self.columns:
            raise BadValue("'terrain' is a field of full rows")
        self.rows = cells // self.columns
        self.heights = read(terrain, cells)
        self.left, self.right = whole(parameters, "left", self.columns), whole(parameters, "right", self.columns)
        self.top, self.bottom = whole(parameters, "top", self.rows), whole(parameters, "bottom", self.rows)
        if self.left >= self.right or self.top >= self.bottom:
            raise BadValue("the part asked about is empty")
        self.depths = [0] * cells

    def take(self, event: Event, now_us: int) -> list[Event]:
        rain = read(event.attributes.get("rain"), len(self.depths))
        for cell, fallen in enumerate(rain):
            self.depths[cell] = min(DEEPEST, self.depths[cell] + fallen * RUNOFF_PERCENT // 100)
        for cell in range(len(self.depths)):
            self.run_off(cell)
        part = [
            self.depths[row * self.columns + column]
            for row in range(self.top, self.bottom)
            for column in range(self.left, self.right)
        ]
        content: dict[str, Value] = {"depth": written(part), "columns": self.right - self.left, "deepest": max(part)}
        return [derived(event, content)]

    def run_off(self, cell: int) -> None:
        """Half of the difference in height goes to the lowest cell beside; at the southern edge a quarter leaves."""
        lowest = cell
        for beside in self.beside(cell):
            if self.surface(beside) < self.surface(lowest):
                lowest = beside
        moved = min(self.depths[cell], (self.surface(cell) - self.surface(lowest)) // 2)
        moved = min(moved, DEEPEST - self.depths[lowest]) if lowest != cell else 0
        self.depths[cell] -= moved
        self.depths[lowest] += moved
        if cell >= len(self.depths) - self.columns:
            self.depths[cell] -= self.depths[cell] // 4

    def beside(self, cell: int) -> Iterator[int]:
        if cell >= self.columns:
            yield cell - self.columns
        if cell % self.columns:
            yield cell - 1
        if (cell + 1) % self.columns:
            yield cell + 1
        if cell + self.columns < len(self.depths):
            yield cell + self.columns

    def surface(self, cell: int) -> int:
        return self.heights[cell] * HEIGHT_UNIT + self.depths[cell]

    def state(self) -> bytes:
        return written(self.depths).encode()

    def load(self, state: bytes) -> None:
        self.depths = read(state.decode(), len(self.depths))


# The land, the storm, and what a rescuer asks.


def valley(columns: int = COLUMNS, rows: int = ROWS) -> str:
    """Two slopes and a river bed between them that falls to the south."""
    return written([3 * abs(column - columns // 2) + rows - row for row in range(rows) for column in range(columns)])


def storm(hour: int, columns: int = COLUMNS, rows: int = ROWS) -> str:
    """Rain from the west: a front two columns wide that takes an hour for each."""
    return written([80 if 0 <= hour - column < 3 else 5 for _ in range(rows) for column in range(columns)])


def asking(left: int, top: int, right: int, bottom: int) -> dict[str, Value]:
    return {
        "columns": COLUMNS,
        "terrain": valley(),
        "left": left,
        "top": top,
        "right": right,
        "bottom": bottom,
    }


EVERYTHING = asking(0, 0, COLUMNS, ROWS)
A_TENTH = asking(8, 10, 12, 20)
"""The lower river bed: 40 of 400 cells."""


def in_python(parameters: dict[str, Value]) -> ModulatorSpec:
    return Registered("runoff", parameters)


def in_wasm(parameters: dict[str, Value]) -> ModulatorSpec:
    return Wasm(bytes(wat2wasm(CODE.read_text(encoding="utf-8"))), parameters)


def rain(hour: int) -> Event:
    published_us = hour * 3_600_000_000
    return Event(
        f"weather:{hour}", "weather/rain", Context("weather"), published_us, published_us, {"rain": storm(hour)}
    )


def deepest_mm(event: Event) -> float:
    return int(str(event.attributes["deepest"])) / 10


# The applications, for hosts of brokers that run modulators. An hour of the storm takes a second.

RAIN = EventType("weather/rain", {"rain": ContentType.STRING})


class Weather:
    """The station: sends the rain of each hour."""

    def start(self, port: Port) -> None:
        self.port = port
        self.hour = 0
        port.announce(RAIN)
        # By then brokers and clients have found each other.
        port.after(20.0, lambda: port.every(1.0, self.send))

    def send(self) -> None:
        self.port.raise_("weather/rain", {"rain": storm(self.hour)}, lifetime_s=60)
        self.hour += 1


class Rescuer:
    """Asks about the lower river bed; says when the water has risen by another centimetre."""

    def start(self, port: Port) -> None:
        self.port = port
        self.said_cm = 0
        port.subscribe("weather/rain", self.look, modulator=spec_to_text(in_python(A_TENTH)))

    def look(self, event: Event) -> None:
        risen_cm = int(deepest_mm(event) // 10)
        if risen_cm > self.said_cm:
            self.said_cm = risen_cm
            self.port.say(f"the river is {risen_cm} cm deep")


# The program.


def watch(spec: ModulatorSpec, hours: int, moves_at: int | None = None) -> tuple[list[Event], Flow]:
    """What the rescuer gets, and the traffic into her modulator and out of it."""
    limits = Limits()
    modulator = make_modulator(spec, Plane(), limits)
    seen: list[Event] = []
    bytes_in = bytes_out = 0
    for hour in range(hours):
        if hour == moves_at:
            elsewhere = make_modulator(spec, Plane(), limits)
            elsewhere.load(modulator.state())
            bytes_in, bytes_out = bytes_in + modulator.meter.bytes_in, bytes_out + modulator.meter.bytes_out
            modulator = elsewhere
        seen += modulator.take(rain(hour), hour * 3_600_000_000)
    seconds = hours * 3_600
    bytes_in, bytes_out = bytes_in + modulator.meter.bytes_in, bytes_out + modulator.meter.bytes_out
    return seen, Flow((bytes_in / seconds,), bytes_out / seconds)


def main() -> None:
    hours = 24
    path = ["A", "B", "C"]
    print(f"rain on {COLUMNS} x {ROWS} cells for {hours} h; brokers {' - '.join(path)} lead to the rescuer")
    seen: list[Event] = []
    for what, parameters in (("all of it", EVERYTHING), ("a tenth", A_TENTH)):
        seen, flow = watch(in_python(parameters), hours)
        place = best(flow, along(path)).broker
        print(
            f"{what:>9}: {flow.rates_in[0]:.2f} B/s in, {flow.rate_out:.2f} B/s out: the modulator belongs to {place}"
        )
    print(f"the river is {max(deepest_mm(event) for event in seen):.1f} mm deep at most")
    print(f"moved after 11 h it says the same: {watch(in_python(A_TENTH), hours, moves_at=11)[0] == seen}")
    print(f"as WebAssembly it says the same: {watch(in_wasm(A_TENTH), hours, moves_at=17)[0] == seen}")


if __name__ == "__main__":
    main()
