"""The options of a source after `?`: `speed=2&loop`. An unknown option is an error."""

from urllib.parse import unquote

from roamcast.model.values import Point
from roamcast.movement.fix import BadSource


class Options:
    def __init__(self, what: str, text: str) -> None:
        self._what = what
        self._given: dict[str, str] = {}
        self._known: list[str] = []
        for each in text.split("&") if text else []:
            name, _, value = each.partition("=")
            if name in self._given:
                raise BadSource(f"{what}: option '{name}' appears twice")
            self._given[name] = unquote(value)

    def number(self, name: str, default: float) -> float:
        text = self._take(name)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise BadSource(f"{self._what}: {name} is '{text}'; give a number") from None

    def integer(self, name: str, default: int) -> int:
        text = self._take(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise BadSource(f"{self._what}: {name} is '{text}'; give an integer") from None

    def flag(self, name: str) -> bool:
        text = self._take(name)
        if text not in (None, ""):
            raise BadSource(f"{self._what}: {name} is there or is not; it has no value")
        return text is not None

    def text(self, name: str) -> str | None:
        return self._take(name)

    def point(self, name: str) -> Point | None:
        text = self._take(name)
        return None if text is None else point_of(text, f"{self._what}: {name}")

    def done(self) -> None:
        """Raises `BadSource` for an option that nobody knows."""
        for name in self._given:
            if name not in self._known:
                known = ", ".join(self._known) or "none"
                raise BadSource(f"{self._what}: there is no option '{name}' (known here: {known})")

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._given.get(name)


def point_of(text: str, what: str) -> Point:
    numbers = text.split(",")
    try:
        x, y = map(float, numbers)
    except ValueError:
        raise BadSource(f"{what} is '{text}'; give two numbers, such as 24.94,60.17 (longitude first)") from None
    return Point(x, y)
