"""docs/PROTOCOL.md, P-8: what depends on a client's place or state is asked for along the way to producers as in
Rebeca, section 5 (R4, R5, R7). A reader is at a, a writer at c, and b between them."""

import json

import pytest

from roamcast.broker.logical.params import PAPERS_RULE, Drift, LogicalParams
from roamcast.broker.mqtt.core import Core
from roamcast.broker.params import BrokerParams
from roamcast.model.places import movement_graph
from roamcast.node.observer import Observer
from tests.broker.mqtt.scene import Scene
from tests.broker.walks import Example

PLACES = "abcdefghijklmno"
RING = {place: PLACES[(index + 1) % len(PLACES)] for index, place in enumerate(PLACES)}
FILTER = "place IN myloc(0)"
RULES = {
    "as given": (LogicalParams(steps=0), 1),
    "paper": (PAPERS_RULE, 3),
    "default": (LogicalParams(), 5),
    "everything": (LogicalParams(steps=64), 15),
}


class Line(Scene):
    """Counts what goes from c to b, and from b to a."""

    def __init__(self, logical: LogicalParams, brokers: str = "abc", **given: object) -> None:
        graph = movement_graph(RING)
        super().__init__(brokers, broker_params=BrokerParams(logical=logical, **given), graph=graph)  # type: ignore[arg-type]
        self.said = 0
        self.passed = dict.fromkeys(brokers[1:], 0)
        for name in brokers[1:]:
            self.stage.brokers[name].observe(Passing(self, name))
        self.reader, self.writer = self.client("reader", "a"), self.client("writer", brokers[-1])

    def stand(self, place: str) -> None:
        self.report(self.reader, attributes={"place": place})

    def say_everywhere(self) -> None:
        for place in PLACES:
            self.said += 1
            self.publish(self.writer, "t", {"place": place, "number": self.said})

    @property
    def got(self) -> str:
        return "".join(json.loads(each)["place"] for each in self.reader.taken)

    def core(self, name: str) -> Core:
        return self.stage.brokers[name].server.core


class Passing(Observer):
    def __init__(self, line: Line, name: str) -> None:
        self.line, self.name = line, name

    def forwarded(self, now_us: int, peer: str, event: object) -> None:
        self.line.passed[self.name] += 1


def walk(line: Line, places: str) -> None:
    line.stand(places[0])
    line.subscribe(line.reader, "t", filter=FILTER)
    for place in places:
        line.stand(place)
        line.say_everywhere()


@pytest.mark.parametrize("rule", RULES)
def test_r4_rule_8_brokers_pass_on_what_the_widened_filter_accepts_and_as_much_as_in_the_simulator(rule: str) -> None:
    logical, places = RULES[rule]
    line = Line(logical)
    walk(line, "abcd")
    assert line.got == "abcd"
    assert line.passed == {"b": places * 4, "c": places * 4}
    example = Example((10, 10, 10), logical, places=RING)
    example.begin("a", FILTER)
    for place in "abcd":
        example.stand("C0", place)
        example.pass_s(1)
        for each in PLACES:
            example.publish("C1", {"place": each})
        example.pass_s(1)
    assert len(example.spoken.of("notified B2-B1")) == line.passed["c"]


def test_r5_rule_8_a_client_that_stays_shorter_than_a_link_takes_is_looked_further_for() -> None:
    line = Line(LogicalParams(residence_s=0.000_5))
    walk(line, "a")
    near, far = line.passed["b"], line.passed["c"]
    assert 5 < near <= far == len(PLACES)


def test_r5_rule_8_stays_are_measured_from_reports_and_go_along_to_the_next_broker() -> None:
    line = Line(LogicalParams(), brokers="abcd")
    walk(line, "a")
    for place in "ba" * 8:
        line.stand(place)
    measured_us = line.core("a").border.sessions["reader"].client_state.residence_us
    assert 400_000 < measured_us < 2_000_000
    line.move(line.reader, "b")
    assert line.core("b").border.sessions["reader"].client_state.residence_us == measured_us


def test_rule_8_a_client_that_roams_is_followed_from_its_new_broker_and_from_nowhere_else() -> None:
    line = Line(LogicalParams())
    walk(line, "d")
    line.move(line.reader, "b")
    line.say_everywhere()
    line.stand("e")
    line.say_everywhere()
    assert line.got == "dde"
    held = {name: [*line.core(name).broker.logical.following.held] for name in "abc"}
    assert [len(each) for each in held.values()] == [1, 1, 1]
    assert (held["a"], held["c"]) == (["b"], ["b"])


def test_rule_7_rule_8_what_was_published_before_a_move_is_judged_by_the_place_of_then_also_on_the_way() -> None:
    """The event is published for a place far behind the one of which the broker in the middle has heard since."""
    line = Line(LogicalParams())
    line.report(line.reader, position=[0, 0], attributes={"place": "a"})
    line.subscribe(line.reader, "t", filter=FILTER)
    line.stage.unlink("b", "c")
    line.rest()
    line.publish(line.writer, "t", {"place": "a"})
    line.report(line.reader, position=[9, 0], attributes={"place": "h"})
    line.publish(line.writer, "t", {"place": "b"})
    line.stage.heal()
    line.rest(2.0)
    assert line.got == "a"


def test_rule_8_a_client_that_is_away_is_asked_for_where_it_was() -> None:
    line = Line(LogicalParams())
    walk(line, "a")
    line.reader.drop()
    line.rest()
    line.say_everywhere()
    assert line.passed["c"] == 2 * 5
    line.move(line.reader, "a")
    assert line.got == "aa"


@pytest.mark.parametrize("snapshot", [True, False])
def test_rule_8_l8_a_broker_that_was_killed_goes_on_following(snapshot: bool) -> None:
    line = Line(LogicalParams())
    walk(line, "a")
    for name in "ab":
        broker = line.stage.brokers[name]
        if snapshot:
            broker.server.write_ahead.snapshot()
            line.rest()
        broker.kill()
        broker.start()
    line.stage.heal()
    line.rest(3.0)
    line.move(line.reader, "a")
    before = line.passed["c"]
    line.stand("b")
    line.say_everywhere()
    assert line.got == "ab"
    assert line.passed["c"] - before == 5


def test_rule_8_nothing_is_held_when_the_subscription_has_ended() -> None:
    line = Line(LogicalParams())
    walk(line, "abc")
    line.unsubscribe(line.reader, "t")
    for name in "abc":
        following = line.core(name).broker.logical.following
        assert (len(following), following.held, len(following.former)) == (0, {}, 0)
    line.say_everywhere()
    assert line.passed["c"] == 3 * 5


def test_r7_rule_8_a_filter_over_an_attribute_that_drifts_is_asked_for_as_far_as_it_may_change() -> None:
    line = Line(LogicalParams(drifts={"budget": Drift(per_s=1.0, grid=10)}))
    line.report(line.reader, attributes={"budget": 25})
    line.subscribe(line.reader, "t", filter="price <= me.budget")
    got = []
    for budget in (25, 28, 55):
        line.report(line.reader, attributes={"budget": budget})
        for price in range(0, 100, 10):
            line.publish(line.writer, "t", {"price": price, "place": ""})
        got.append(len(line.reader.taken))
        line.reader.taken.clear()
    assert got == [3, 3, 6]
    # Up to 30, 30 and 60.
    assert line.passed == {"b": 4 + 4 + 7, "c": 4 + 4 + 7}


def test_rule_8_another_movement_graph_holds_for_what_is_followed_already() -> None:
    line = Line(LogicalParams())
    walk(line, "a")
    star = movement_graph({"a": PLACES[1:]})
    for name in "abc":
        core = line.core(name)
        core.adopt(core.broker.params, core.params, star)
    line.passed = dict.fromkeys(line.passed, 0)
    line.say_everywhere()
    assert line.passed["c"] == len(PLACES)


def test_rule_8_a_topic_that_nobody_elsewhere_asks_for_does_not_leave_its_broker() -> None:
    line = Line(LogicalParams())
    walk(line, "a")
    router = line.core("c").broker.neighbours.router
    assert router.may_leave("t")
    assert not router.may_leave("other")
