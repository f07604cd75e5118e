"""What nodes can judge alone, and what they refuse because they cannot."""

from collections.abc import Callable

import pytest

from roamcast.adhoc.flooding import AdhocFlooding, FloodingParams
from roamcast.broker.client import Client
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.filter import parse_text
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Node, Note, Start, Subscribe


def client() -> Node:
    return Client("c", BrokerParams())


def flooding() -> Node:
    return AdhocFlooding(FloodingParams())


@pytest.mark.parametrize("make", [client, flooding])
@pytest.mark.parametrize(
    ("content", "publishers"), [("neighbours.any(x > 1)", "TRUE"), ("x > 1", "neighbours.count() > 2")]
)
def test_c2_who_hears_of_no_neighbours_refuses_what_asks_about_them(
    make: Callable[[], Node], content: str, publishers: str
) -> None:
    node = make()
    node.handle(0, Start(Context("c")))
    scope = Scope(None, parse_text(publishers)) if publishers != "TRUE" else EVERYWHERE
    wanted = Subscription("s", "c", "x", 0, FOREVER_US, parse_text(content), EVERYWHERE, scope)
    assert node.handle(0, Subscribe(wanted)) == [Note("neighbours_unknown", "s")]


@pytest.mark.parametrize("make", [client, flooding])
def test_c2_what_asks_about_nobody_is_taken(make: Callable[[], Node]) -> None:
    node = make()
    node.handle(0, Start(Context("c")))
    wanted = Subscription("s", "c", "x", 0, FOREVER_US, parse_text("x > me.x"))
    assert not any(isinstance(effect, Note) for effect in node.handle(0, Subscribe(wanted)))
