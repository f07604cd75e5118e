"""L7: who may connect, publish and subscribe, and where; what no rule allows is denied."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.region import Anchored, Box, Circle, Polygon, Shape, contains
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subject import subject_matches
from roamcast.model.values import BadValue, Point
from roamcast.mqtt import Reason
from roamcast.mqtt.packets import Connect
from roamcast.server.security import (
    Admitted,
    BoxArea,
    CircleArea,
    Identity,
    Policy,
    PolygonArea,
    Refused,
    Rule,
    ToVerify,
    common_name,
    lies_within,
)
from tests.effort import examples

PLANE = Plane()
EARTH = Earth()
ANN = Identity("ann-phone", "ann")
NOBODY = Identity("nobody")
YARD = BoxArea((0.0, 0.0), (100.0, 100.0))


def publishes(policy: Policy, identity: Identity, topic: str) -> bool:
    return policy.may_publish(identity, topic).allowed


def test_l7_a_broker_for_which_nothing_is_configured_lets_everybody_do_everything() -> None:
    policy = Policy(PLANE)
    assert policy.open
    assert policy.connect(Connect("c", username="ann", password=b"?")) == Admitted(Identity("c"))
    assert policy.may_publish(NOBODY, "a/b").allowed
    assert policy.may_subscribe(NOBODY, "#").allowed


def test_l7_nobody_comes_in_without_a_name_once_something_is_configured() -> None:
    for policy in (
        Policy(PLANE, (Rule(publish=("#",)),)),
        Policy(PLANE, (), {"ann": "hash"}),
        Policy(PLANE, asks_certificates=True),
    ):
        refused = policy.connect(Connect("c"))
        assert isinstance(refused, Refused)
        assert refused.verdict.reason is Reason.NOT_AUTHORIZED


def test_l7_nothing_is_allowed_that_no_rule_allows() -> None:
    policy = Policy(PLANE, (), {"ann": "hash"})
    assert policy.may_publish(ANN, "a").reason is Reason.NOT_AUTHORIZED
    assert policy.may_subscribe(ANN, "a").reason is Reason.NOT_AUTHORIZED
    assert "user 'ann' as client 'ann-phone' may not subscribe to a" in policy.may_subscribe(ANN, "a").detail


def test_l7_whoever_has_no_name_may_come_in_if_that_is_said_and_has_the_rules_for_everybody() -> None:
    policy = Policy(PLANE, (Rule(publish=("open/#",)), Rule(users=("*",), publish=("named/#",))), anonymous=True)
    assert policy.connect(Connect("nobody", username="ann", password=b"?")) == Admitted(NOBODY)
    assert publishes(policy, NOBODY, "open/a")
    assert not publishes(policy, NOBODY, "named/a")
    assert publishes(policy, ANN, "named/a")


def test_l7_a_password_is_to_be_verified_against_the_hash_of_the_user_or_a_decoy() -> None:
    policy = Policy(PLANE, (), {"ann": "hash"}, decoy_hash="decoy")
    assert policy.connect(Connect("c", username="ann", password=b"p")) == ToVerify(Identity("c", "ann"), "hash", b"p")
    assert policy.connect(Connect("c", username="eve", password=b"p")) == ToVerify(
        Identity("c", "eve"), "decoy", b"p"
    )
    without = policy.connect(Connect("c", username="ann"))
    assert isinstance(without, Refused)
    assert without.verdict.reason is Reason.BAD_USER_NAME_OR_PASSWORD


def test_l7_the_name_in_a_certificate_is_the_user_and_no_other_name_may_come_with_it() -> None:
    policy = Policy(PLANE, (), {"ann": "hash"}, asks_certificates=True)
    assert policy.connect(Connect("c"), "ann") == Admitted(Identity("c", "ann"))
    assert policy.connect(Connect("c", username="ann"), "ann") == Admitted(Identity("c", "ann"))
    assert isinstance(policy.connect(Connect("c", username="bob", password=b"p"), "ann"), Refused)


def test_l7_nobody_comes_in_under_a_client_id_that_rules_tie_to_another_user() -> None:
    rules = (Rule(clients=("%u-*",), publish=("#",)),)
    policy = Policy(PLANE, rules, {"ann": "ann's", "eve": "eve's"}, decoy_hash="decoy", anonymous=True)

    def digest_for(user: str, client_id: str) -> str:
        coming = policy.connect(Connect(client_id, username=user, password=b"p"))
        assert isinstance(coming, ToVerify)
        return coming.hash

    assert digest_for("ann", "ann-phone") == "ann's"
    assert digest_for("eve", "eve-phone") == "eve's"
    assert digest_for("eve", "ann-phone") == "decoy"
    assert policy.connect(Connect("ann-phone"), "ann") == Admitted(ANN)
    assert isinstance(policy.connect(Connect("ann-phone"), "eve"), Refused)
    assert isinstance(policy.connect(Connect("ann-phone")), Refused)


def test_l7_the_common_name_is_read_from_a_verified_certificate_alone() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "ann"),))
    assert common_name({"subject": subject}) == "ann"
    assert common_name({"subject": (*subject, (("commonName", "bob"),))}) is None
    assert common_name({"subject": ()}) is None
    assert common_name({}) is None
    assert common_name(None) is None


@pytest.mark.parametrize(
    ("rule", "identity", "speaks"),
    [
        (Rule(publish=("#",)), NOBODY, True),
        (Rule(users=("ann",), publish=("#",)), ANN, True),
        (Rule(users=("bob", "a*"), publish=("#",)), ANN, True),
        (Rule(users=("*nn",), publish=("#",)), ANN, True),
        (Rule(users=("an",), publish=("#",)), ANN, False),
        (Rule(users=("*",), publish=("#",)), NOBODY, False),
        (Rule(clients=("%u-*",), publish=("#",)), ANN, True),
        (Rule(clients=("%u-*",), publish=("#",)), NOBODY, False),
        (Rule(clients=("%u-*",), publish=("#",)), Identity("bob-phone", "*"), False),
        (Rule(users=("ann",), clients=("bob-*",), publish=("#",)), ANN, False),
        (Rule(users=("a.n",), publish=("#",)), ANN, False),
    ],
)
def test_l7_a_rule_speaks_of_the_users_and_clients_that_it_names(
    rule: Rule, identity: Identity, speaks: bool
) -> None:
    assert rule.speaks_of(identity) is speaks


@pytest.mark.parametrize("name", ["#", "+", "a/b", "", "%c"])
def test_l7_no_client_widens_a_rule_by_its_name(name: str) -> None:
    policy = Policy(PLANE, (Rule(publish=("of/%u/x",), subscribe=("of/%u/x", "client/%u/%c")),))
    eve = Identity("phone", name)
    assert not publishes(policy, eve, "of/ann/x")
    assert not policy.may_subscribe(eve, "of/+/x").allowed
    assert not policy.may_subscribe(eve, "client/phone/phone").allowed


def test_l7_names_stand_in_topics() -> None:
    policy = Policy(PLANE, (Rule(publish=("of/%u/%c/#",)),))
    assert publishes(policy, ANN, "of/ann/ann-phone/x")
    assert not publishes(policy, ANN, "of/bob/ann-phone/x")


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        ("fleet/1/speed", True),
        ("fleet/+/speed", True),
        ("fleet/#", False),
        ("+/1/speed", False),
        ("#", False),
        ("$share/group/fleet/+/speed", True),
        ("$share/group/fleet/#", False),
        ("$roam/near/fleet/+/speed", True),
        ("$roam/near/#", False),
    ],
)
def test_l7_a_pattern_is_allowed_only_if_an_allowed_one_covers_it(wanted: str, allowed: bool) -> None:
    assert Policy(PLANE, (Rule(subscribe=("fleet/+/speed",)),)).may_subscribe(ANN, wanted).allowed is allowed


def test_l7_a_pattern_that_is_none_is_denied_as_such() -> None:
    assert Policy(PLANE).may_subscribe(ANN, "$share/").reason is Reason.TOPIC_FILTER_INVALID


LEVELS = st.lists(st.sampled_from(["a", "b", "+"]), min_size=1, max_size=3)
PATTERNS = st.builds(lambda levels, rest: "/".join(levels + rest), LEVELS, st.sampled_from([[], ["#"]]))
TOPICS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4).map("/".join)


@examples(300)
@given(PATTERNS, PATTERNS, TOPICS)
def test_l7_no_allowed_subscription_gets_a_topic_that_is_not_allowed(allowed: str, wanted: str, topic: str) -> None:
    policy = Policy(PLANE, (Rule(subscribe=(allowed,)),))
    if policy.may_subscribe(ANN, wanted).allowed and subject_matches(wanted, topic):
        assert subject_matches(allowed, topic)


def test_l7_everybody_may_report_on_themselves() -> None:
    assert publishes(Policy(PLANE, (Rule(subscribe=("a",)),)), ANN, "$roam/me")


def test_l7_with_an_area_one_publishes_from_inside_it_and_into_it_alone() -> None:
    policy = Policy(PLANE, (Rule(publish=("yard/#",), area=YARD),))
    inside, outside = Point(50.0, 50.0), Point(150.0, 50.0)
    assert policy.may_publish(ANN, "yard/x", inside).allowed
    assert policy.may_publish(ANN, "yard/x", inside, (Circle(inside, 40.0),)).allowed
    assert not policy.may_publish(ANN, "yard/x", None).allowed
    assert not policy.may_publish(ANN, "yard/x", inside, (Circle(inside, 60.0),)).allowed
    assert not policy.may_publish(ANN, "yard/x", inside, (Circle(inside, 40.0), Circle(inside, 60.0))).allowed
    denied = policy.may_publish(ANN, "yard/x", outside)
    assert denied.reason is Reason.NOT_AUTHORIZED
    assert denied.detail.endswith("from here or into there")


def test_l7_a_publisher_may_stand_elsewhere_if_its_events_say_that_they_stay_inside() -> None:
    policy = Policy(PLANE, (Rule(publish=("#",), area=YARD, publisher_inside=False),))
    assert policy.may_publish(ANN, "x", None, (Circle(Point(50.0, 50.0), 40.0),)).allowed
    assert not policy.may_publish(ANN, "x", Point(50.0, 50.0)).allowed


def test_l7_a_region_that_moves_with_the_publisher_is_judged_where_the_publisher_is() -> None:
    policy = Policy(PLANE, (Rule(publish=("#",), area=YARD),))
    around = Circle(Point(0.0, 0.0), 20.0)
    assert policy.may_publish(ANN, "x", Point(50.0, 50.0), (Anchored(around, "ann-phone"),)).allowed
    assert not policy.may_publish(ANN, "x", Point(95.0, 50.0), (Anchored(around, "ann-phone"),)).allowed
    assert not policy.may_publish(ANN, "x", Point(50.0, 50.0), (Anchored(around, "bob-phone"),)).allowed


def test_one_rule_that_allows_is_enough() -> None:
    policy = Policy(PLANE, (Rule(publish=("#",), area=YARD), Rule(users=("ann",), publish=("x",))))
    assert publishes(policy, ANN, "x")
    assert not publishes(policy, NOBODY, "x")


def test_an_area_that_is_not_in_the_space_is_refused() -> None:
    with pytest.raises(BadValue, match="latitude"):
        Policy(EARTH, (Rule(publish=("#",), area=CircleArea((0.0, 500.0), 10.0)),))


@pytest.mark.parametrize(
    ("given_rule", "said"),
    [
        ({"users": ["a"]}, "publish and subscribe are both missing"),
        ({"publish": ["a/#/b"]}, "# must be the last level"),
        ({"subscribe": ["a"], "area": {"kind": "box", "low": [0, 0], "high": [1, 1]}}, "this rule has no publish"),
        ({"publish": ["a"], "area": {"kind": "circle", "centre": [0, 0], "radius_m": -1}}, "radius of -1"),
        ({"publish": ["a"], "area": {"kind": "polygon", "corners": [[0, 0], [1, 1]]}}, "polygon of 2 corners"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(given_rule: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(given_rule, Rule)


def test_the_three_kinds_of_area_are_shapes_of_the_model() -> None:
    corners = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    assert CircleArea((1.0, 2.0), 3.0).shape() == Circle(Point(1.0, 2.0), 3.0)
    assert BoxArea((0.0, 0.0), (1.0, 1.0)).shape() == Box(Point(0.0, 0.0), Point(1.0, 1.0))
    assert PolygonArea(corners).shape() == Polygon(tuple(Point(*corner) for corner in corners))


def near(latitude: float) -> st.SearchStrategy[Point]:
    return st.builds(lambda x, y: Point(10.0 + x, latitude + y), st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))


@st.composite
def shapes_on_earth(draw: st.DrawFn, latitude: float) -> Shape:
    a = draw(near(latitude))
    size = draw(st.floats(0.01, 0.3))
    high = Point(a.x + size, a.y + size * draw(st.floats(0.2, 1.0)))
    shapes: list[Shape] = [
        Circle(a, size * 60_000),
        Box(a, high),
        Polygon((a, Point(high.x, a.y), high, Point(a.x, high.y + size / 3))),
    ]
    return draw(st.sampled_from(shapes))


@examples(300)
@given(st.data(), st.sampled_from([(EARTH, 0.0), (EARTH, 52.0), (EARTH, -70.0), (PLANE, 0.0)]))
def test_l7_no_point_of_a_region_that_lies_within_an_area_is_outside_it(
    data: st.DataObject, where: tuple[Space, float]
) -> None:
    space, latitude = where
    area, region = data.draw(shapes_on_earth(latitude)), data.draw(shapes_on_earth(latitude))
    if lies_within(area, region, space):
        for point in data.draw(st.lists(near(latitude), max_size=30)):
            assert not contains(region, point, space) or contains(area, point, space)


def test_a_small_region_well_inside_lies_within_whatever_the_shapes() -> None:
    for latitude in (0.0, 52.0, -70.0):
        middle = Point(10.0, latitude)
        square = Box(Point(9.0, latitude - 1), Point(11.0, latitude + 1))
        wide: list[Shape] = [Circle(middle, 200_000.0), square]
        wide.append(Polygon((square.low, Point(11.0, latitude - 1), square.high, Point(9.0, latitude + 1))))
        low, high = Point(9.99, latitude - 0.01), Point(10.01, latitude + 0.01)
        small: list[Shape] = [Circle(middle, 500.0), Box(low, high), Polygon((low, Point(10.01, latitude), high))]
        assert all(lies_within(area, region, EARTH) for area in wide for region in small)
        assert not any(lies_within(region, area, EARTH) for area in wide for region in small)
