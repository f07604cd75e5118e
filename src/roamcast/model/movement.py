"""How things were seen to move: places, how long one stays there, and where one goes next (P3, M10, R4).

A movement model is learned from traces and read by brokers, so it is a file with a version: JSON, one object,

    {"version": 1, "cell_m": 250.0, "origin": [0.0, 0.0],
     "places": {"3,4": {"residence_s": 41.5, "next": {"4,4": 17, "3,5": 2}}, ...}}

`next` counts how often one went from a place to another; `residence_s` is the mean time between coming and going.
A place that is a cell of a grid is called `column,row`, from `origin`; `cell_m` is 0 where places are not cells.
Whatever a file says is checked when it is read; a model in memory is never wrong.

The pipeline says more, and a model is complete without it: `ends` counts where trips from the place ended, which may
be where they began; `residence_quantiles_s` are the times that 10, 50 and 90 of 100 stays do not exceed; `evaluation`
is what the model was worth on hosts it was not learned from.
"""

import math
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.space import Cell
from roamcast.model.values import BadValue

VERSION = 1
PLACES_MAX = 1_000_000
FILE_BYTES_MAX = 1 << 28


class Habits(Struct, frozen=True, forbid_unknown_fields=True):
    """What was seen at one place."""

    residence_s: float
    next: dict[str, int] = {}
    ends: dict[str, int] = {}
    residence_quantiles_s: tuple[float, float, float] | None = None


class Score(Struct, frozen=True, forbid_unknown_fields=True):
    """How often the model named the right place, asked about hosts that it was not learned from."""

    what: Literal["ploc", "next", "trip", "broker"]
    """Where one is: after some steps, next, at the end of the trip, after some time."""
    ahead: float
    """How far: steps (`ploc`), mean residence times (`broker`), else 1."""
    reach: int
    """How many guesses there were; of `ploc`, its q."""
    asked: int
    hits: int
    size: float
    """How many places were named, on average."""


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True):
    hosts: int
    """How many were held out."""
    mean_residence_s: float
    """Over all stays that were learned from: the unit of `Score.ahead` of brokers."""
    scores: tuple[Score, ...] = ()


class MovementModel(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    places: dict[str, Habits]
    cell_m: float = 0.0
    """How wide and high a cell is, where places are cells."""
    origin: tuple[float, float] = (0.0, 0.0)
    """The corner at which cell 0,0 begins."""
    evaluation: Evaluation | None = None

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise BadValue(f"movement model of version {self.version}; this program reads version {VERSION}")
        if len(self.places) > PLACES_MAX:
            raise BadValue(f"movement model with {len(self.places)} places; at most {PLACES_MAX}")
        if not 0 <= self.cell_m < math.inf or not all(math.isfinite(each) for each in self.origin):
            raise BadValue("movement model: cell_m must not be negative, and the origin two finite numbers")
        for name, habits in self.places.items():
            self._check_place(name, habits)

    def _check_place(self, name: str, habits: Habits) -> None:
        if not name:
            raise BadValue("movement model: a place needs a name")
        if self.cell_m > 0:
            cell_named(name)
        if not 0 < habits.residence_s < math.inf:
            raise BadValue(f"movement model: at '{name}' residence_s is {habits.residence_s}; give more than 0")
        for other, count in habits.next.items():
            if other not in self.places:
                raise BadValue(f"movement model: '{name}' leads to '{other}', which is not among the places")
            if other == name or count < 1:
                raise BadValue(f"movement model: '{name}' leads to '{other}' {count} times; a step goes elsewhere")
        for other, count in habits.ends.items():
            if other not in self.places or count < 1:
                raise BadValue(f"movement model: trips from '{name}' end at '{other}' {count} times; no such trip")

    def likeliest(self, place: str) -> str | None:
        """Where most went from there; of two as frequent ones the first by name. None: nobody was seen to leave."""
        habits = self.places.get(place)
        if habits is None or not habits.next:
            return None
        return min(habits.next, key=lambda other: (-habits.next[other], other))

    def residence_s(self, place: str) -> float | None:
        habits = self.places.get(place)
        return None if habits is None else habits.residence_s

    def graph(self) -> MovementGraph:
        """The steps that were seen, as the graph that `myloc` walks on."""
        return movement_graph({name: habits.next for name, habits in self.places.items()}, both_ways=False)


def cell_name(cell: Cell) -> str:
    return f"{cell[0]},{cell[1]}"


def cell_named(name: str) -> Cell:
    column, _, row = name.partition(",")
    try:
        cell = int(column), int(row)
    except ValueError:
        cell = None
    if cell is None or cell_name(cell) != name:
        raise BadValue(f"movement model: '{name}' is not a cell; a cell is called 'column,row', for example '3,4'")
    return cell


def model_from(data: bytes) -> MovementModel:
    """The model in these bytes; `BadValue` says what is wrong with them."""
    if len(data) > FILE_BYTES_MAX:
        raise BadValue(f"movement model of {len(data)} bytes; at most {FILE_BYTES_MAX}")
    try:
        return msgspec.json.decode(data, type=MovementModel)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise BadValue(f"movement model: {problem}") from problem


def load_model(path: Path) -> MovementModel:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise BadValue(f"{path}: cannot be read: {problem.strerror}") from problem
    try:
        return model_from(data)
    except BadValue as problem:
        raise BadValue(f"{path}: {problem}") from problem


def model_bytes(model: MovementModel) -> bytes:
    """Sorted, one value a line, so that two files can be compared."""
    return msgspec.json.format(msgspec.json.encode(model, order="sorted"), indent=1) + b"\n"


def save_model(model: MovementModel, path: Path) -> None:
    path.write_bytes(model_bytes(model))
