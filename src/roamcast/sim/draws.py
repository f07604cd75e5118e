"""Values that a scenario leaves to the seed: `{ integer = [1, 5] }`, `{ number = [0, 1] }`, `{ choice = [...] }`."""

from random import Random
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.values import BadValue, Value, check_attributes, check_value


class Draw(Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of the three, drawn anew for each host or event."""

    integer: tuple[int, int] | None = None
    number: tuple[float, float] | None = None
    choice: tuple[bool | int | float | str, ...] | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.integer, self.number, self.choice) if each is not None]
        if len(given) != 1 or not given[0]:
            raise ValueError("give exactly one of integer = [low, high], number = [low, high], choice = [value, …]")
        for key in ("integer", "number", "choice"):
            for value in getattr(self, key) or ():
                check_value(key, value)
        for bounds in (self.integer, self.number):
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"the lower bound {bounds[0]} is above the upper bound {bounds[1]}")

    def one(self, rng: Random) -> Value:
        if self.integer is not None:
            return rng.randint(*self.integer)
        if self.number is not None:
            return rng.uniform(*self.number)
        assert self.choice is not None
        return rng.choice(self.choice)


Drawn: TypeAlias = Draw | bool | int | float | str


def check_drawn(key: str, wanted: dict[str, Drawn]) -> None:
    """Raises `ValueError` for what could not be an attribute; a `Draw` has checked its own values."""
    values = {name: each for name, each in wanted.items() if not isinstance(each, Draw)}
    try:
        check_attributes({**dict.fromkeys(wanted, 0), **values})
    except BadValue as problem:
        raise ValueError(f"{key}: {problem}") from problem


def draw_all(wanted: dict[str, Drawn], rng: Random) -> dict[str, Value]:
    return {name: each.one(rng) if isinstance(each, Draw) else each for name, each in wanted.items()}
