"""A delivery is one for all clients that see it alike, and a batch of inputs does what they do one by one (L8)."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import Deliver
from roamcast.broker.mqtt.inputs import AnyGiven, Arrived, Asked, Finished, Left, Published, Received
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
from tests.broker.mqtt.machines import EPOCH_US
from tests.effort import examples

CLIENTS = ("ann", "bob", "cy")


def core_with(*subscriptions: tuple[str, Subscription]) -> Core:
    core = Core("a", 1)
    for name in CLIENTS:
        core.handle(EPOCH_US, Arrived(name, True, 1_000))
    for name, asked in subscriptions:
        core.handle(EPOCH_US, Asked(name, 1, (asked,)))
    return core


def published(core: Core, payload: bytes = b"x", qos: int = 1) -> list[tuple[int, list[tuple[str, int]]]]:
    """By effect, the QoS, and who gets it under which number."""
    effects = core.handle(EPOCH_US, Published("cy", 1 if qos == 1 else 2, Message("t", payload, qos)))
    return [
        (each.run[0].form.qos, [(session.client, number) for session, number in each.receivers])
        for each in effects
        if isinstance(each, Deliver) and each.run[0].form is not None
    ]


def test_clients_that_see_a_message_alike_share_one_delivery() -> None:
    want = Subscription(parse_filter("t"), 1)
    core = core_with(("ann", want), ("bob", want))
    assert published(core) == [(1, [("ann", 1), ("bob", 1)])]
    one, other = (core.border.sessions[name].window.entries[1] for name in ("ann", "bob"))
    assert one is other


def test_clients_that_see_it_otherwise_have_deliveries_of_their_own() -> None:
    core = core_with(
        ("ann", Subscription(parse_filter("t"), 1, subscription_id=7)),
        ("bob", Subscription(parse_filter("t"), 2)),
    )
    assert published(core, qos=2) == [(1, [("ann", 1)]), (2, [("bob", 1)])]


STEPS = st.one_of(
    st.builds(Published, st.just("cy"), st.integers(1, 5), st.builds(Message, st.just("t"), st.binary(), st.just(1))),
    st.builds(Finished, st.lists(st.tuples(st.sampled_from(CLIENTS), st.tuples(st.integers(1, 6)))).map(tuple)),
    st.builds(Received, st.sampled_from(CLIENTS), st.integers(1, 6)),
    st.builds(Left, st.sampled_from(CLIENTS[:2]), st.none(), st.just(True)),
    st.builds(Arrived, st.sampled_from(CLIENTS[:2]), st.just(False), st.just(1_000)),
)


def windows(core: Core) -> dict[str, Any]:
    return {
        name: (each.window.after(0), each.window.state(), each.window.first, each.window.bytes, each.connected)
        for name, each in core.border.sessions.items()
    }


def numbers_apart(given: AnyGiven) -> Sequence[AnyGiven]:
    """Acknowledgements that came together, each by itself."""
    if not isinstance(given, Finished):
        return (given,)
    return [Finished(((client, (number,)),)) for client, numbers in given.rows for number in numbers]


@given(steps=st.lists(STEPS, max_size=25), cut=st.integers(0, 25))
@examples(150)
def test_acknowledgements_together_and_a_snapshot_on_the_way_change_nothing(steps: list[AnyGiven], cut: int) -> None:
    want = Subscription(parse_filter("t"), 1)
    together = core_with(("ann", want), ("bob", want))
    one_by_one = core_with(("ann", want), ("bob", want))
    for index, step in enumerate(steps):
        if index == cut:
            one_by_one = Core.restored(one_by_one.snapshot())
        together.handle(EPOCH_US + index, step)
        for each in numbers_apart(step):
            one_by_one.handle(EPOCH_US + index, each)
    assert windows(one_by_one) == windows(together)
