"""Flows: source-routed messages between brokers arrive once and in order, or later, or on another path (O5, O7)."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.overlay.flows import Flows
from roamcast.broker.overlay.messages import Inside, Parcel, Retire, Row
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.topology import Topology
from roamcast.node.boundary import Does, Note, Send, SetTimer
from tests.effort import examples

PARAMS = OverlayParams(window_messages=4, stored_messages_max=30)


def flows_of(host: str, *rows: Row, life: int = 1) -> Flows:
    topology = Topology(host, 100)
    for row in rows:
        topology.learn(row)
    return Flows(host, PARAMS, life, topology)


def parcels(effects: list[Does]) -> list[tuple[str, Parcel]]:
    return [
        (each.to, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, Parcel)
    ]


class Pair:
    """Two brokers and a network between them that loses and disorders at will."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.ends = {"A": flows_of("A", life=11), "B": flows_of("B", life=22)}
        self.got: dict[str, list[Inside]] = {"A": [], "B": []}
        self.under_way: list[tuple[str, Parcel]] = []
        self.timers: dict[tuple[str, str], int] = {}
        self.now_us = 0

    def perform(self, end: str, effects: list[Does]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[(end, effect.name)] = effect.at_us
        self.under_way += parcels(effects)

    def say(self, end: str, name: str) -> None:
        self.perform(end, self.ends[end].say(self.now_us, "B" if end == "A" else "A", Retire(name, 1)))

    def step(self, loss: float) -> None:
        """One parcel arrives or is lost, or the earliest timer fires."""
        if self.under_way:
            to, parcel = self.under_way.pop(self.rng.randrange(len(self.under_way)))
            if self.rng.random() >= loss:
                ready, effects = self.ends[to].arrive(self.now_us, parcel)
                self.got[to] += ready
                self.perform(to, effects)
        elif self.timers:
            (end, name), at_us = min(self.timers.items(), key=lambda each: (each[1], each[0]))
            del self.timers[(end, name)]
            self.now_us = max(self.now_us, at_us)
            kind, peer = name.split(":")
            flows = self.ends[end]
            self.perform(end, flows.resend(self.now_us, peer) if kind == "resend" else flows.acknowledge(peer))


@given(seed=st.integers(0, 10**6), says=st.lists(st.sampled_from("AB"), max_size=25), loss=st.floats(0, 0.6))
@examples(150)
def test_o7_everything_arrives_once_and_in_order_over_a_network_that_loses_and_disorders(
    seed: int, says: list[str], loss: float
) -> None:
    pair = Pair(seed)
    for number, end in enumerate(says):
        pair.say(end, str(number))
        pair.step(loss)
    for _ in range(3_000):
        pair.step(loss if pair.now_us < 60_000_000 else 0)
    said = {end: [Retire(str(number), 1) for number, each in enumerate(says) if each == end] for end in "AB"}
    assert pair.got == {"A": said["B"], "B": said["A"]}
    assert [flows.left() for flows in pair.ends.values()] == [0, 0]
    assert not pair.under_way


def test_o5_a_message_leaves_with_the_path_that_its_sender_knows() -> None:
    flows = flows_of("A", Row("B", 1, (("A", 1), ("C", 1))), Row("C", 1, (("D", 1),)))
    ((to, parcel),) = parcels(flows.say(0, "D", Retire("x", 1)))
    assert (to, parcel.path, parcel.at) == ("B", ("A", "B", "C", "D"), 1)
    ((to, onwards),) = parcels(flows_of("B").pass_on(parcel))
    assert (to, onwards.path, onwards.at) == ("C", ("A", "B", "C", "D"), 2)


def test_o7_a_broker_on_the_way_takes_another_path_when_the_next_one_cannot_be_reached() -> None:
    middle = flows_of("B", Row("C", 1, (("B", 1), ("D", 1))), Row("E", 1, (("B", 2), ("D", 2))))
    middle.pass_on(Parcel(("A", "B", "C", "D"), 1, 1, 0, 0, 1, Retire("x", 1)))
    ((to, parcel),) = parcels(middle.unreachable(0, "C"))
    assert (to, parcel.path, parcel.at) == ("E", ("A", "B", "E", "D"), 2)


def test_o7_without_another_path_the_receiver_itself_is_tried_and_then_the_sender_keeps_the_message() -> None:
    middle = flows_of("B")
    middle.pass_on(Parcel(("A", "B", "C", "D"), 1, 1, 0, 0, 1, Retire("x", 1)))
    ((to, parcel),) = parcels(middle.unreachable(0, "C"))
    assert (to, parcel.path) == ("D", ("A", "B", "D"))
    assert middle.unreachable(0, "D") == [Note("parcel_stopped", "D")]


def test_o7_what_waits_for_a_broker_is_bounded() -> None:
    flows = flows_of("A")
    for number in range(PARAMS.stored_messages_max):
        assert not flows.full("B")
        flows.say(0, "B", Retire(str(number), 1))
    assert flows.full("B")
    assert not flows.full("C")


def test_o7_only_a_window_is_under_way() -> None:
    flows = flows_of("A")
    sent = [each for number in range(10) for each in parcels(flows.say(0, "B", Retire(str(number), 1)))]
    assert [parcel.number for _, parcel in sent] == [1, 2, 3, 4]
    confirmed = Parcel(("B", "A"), 1, 5, 1, 3)
    assert [parcel.number for _, parcel in parcels(flows.arrive(0, confirmed)[1])] == [5, 6, 7]


def test_o7_a_broker_that_crashed_gets_what_it_had_not_acknowledged_numbered_anew() -> None:
    pair = Pair(1)
    pair.say("A", "one")
    for _ in range(50):
        pair.step(0)
    pair.ends["B"] = flows_of("B", life=33)
    pair.say("A", "two")
    for _ in range(50):
        pair.step(0)
    assert pair.got["B"] == [Retire("one", 1), Retire("two", 1)]
    assert pair.ends["A"].restarted == ["B"]


def test_o7_a_parcel_of_a_life_that_is_over_does_not_begin_the_flow_anew() -> None:
    flows = flows_of("A", life=1)
    flows.arrive(0, Parcel(("B", "A"), 1, 22, 1, 0, 1, Retire("of before", 1)))
    flows.arrive(0, Parcel(("B", "A"), 1, 33, 1, 0, 1, Retire("now", 1)))
    ready, effects = flows.arrive(0, Parcel(("B", "A"), 1, 22, 1, 0, 2, Retire("late", 1)))
    assert ready == []
    assert Note("parcel_of_before", "B") in effects
    assert (flows.of["B"].peer_life, flows.of["B"].got) == (33, 1)
    assert flows.restarted == ["B"]
