"""What a filter looks at when it is asked."""

from collections.abc import Callable, Sequence

from roamcast.model.context import Context
from roamcast.model.values import Value


class Scene:
    """The event's attributes by name, the reader (`me`), the publisher, and a way to find the reader's neighbours.

    In a scope the host under test is the reader, and the attributes are its own (`Context.value`).
    """

    __slots__ = ("attribute", "me", "neighbours", "publisher")

    def __init__(
        self,
        attribute: Callable[[str], Value | None],
        me: Context | None = None,
        publisher: Context | None = None,
        neighbours: Callable[[], Sequence[Context]] | None = None,
    ) -> None:
        self.attribute = attribute
        self.me = me
        self.publisher = publisher
        self.neighbours = neighbours
