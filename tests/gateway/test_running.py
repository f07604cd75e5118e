"""L9: gateways between real nodes and real brokers, in one process."""

import json
from pathlib import Path

import pytest

from roamcast.gateway.running import GatewaySettings
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Point
from roamcast.mqtt.origin import origin_in
from tests.gateway.places import Places, places, told
from tests.multicast.lan import CONTEXT, ICE, PROXIMITY, until


async def car_and_reader(made: Places) -> None:
    area = made.areas[0]
    area.node("car", 10)
    area.node("reader", 30)
    area.listen("reader")
    area.announce("car")
    await until(lambda: area.members("reader") == 1)


def known(made: Places, name: str) -> int:
    """Of how many proximities a node has heard; those of two gateways in one place have one group."""
    return len(made.areas[0].nodes[name].host.host.node.discovery.relevant)  # type: ignore[attr-defined]


@pytest.mark.parametrize("gateways", [1, 2])
def test_l9_an_event_of_the_area_reaches_the_far_broker_once_with_its_publisher_and_audience(
    tmp_path: Path, gateways: int
) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            await car_and_reader(made)

            async def has_joined(name: str) -> None:
                await until(lambda: made.areas[0].members(name) >= 2)

            for number in range(gateways):
                await made.gateway(made.areas[0], f"gate{number}", ("one", "two")[number])
                await has_joined(f"gate{number}")
            far = await made.reader("far", "two")
            await far.move(Point(90.0, 0.0))
            for depth in (3, 4):
                raised = made.areas[0].nodes["car"].port.raise_("ice", {"depth": depth})
            await until(lambda: len(made.got["far"]) == 2)
            await made.met(2)
            assert [event.attributes for event in made.got["far"]] == [{"depth": 3}, {"depth": 4}]
            origin = origin_in(made.got["far"][1].properties)
            assert origin is not None
            assert (origin.id, origin.publisher.host, origin.publisher.position) == (
                raised.id,
                "car",
                Point(10.0, 0.0),
            )
            assert origin.audience == raised.audience == Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "car"))
            assert made.areas[0].depths("reader") == [3, 4]

    told(story)


def test_l9_rule_9_brokers_match_by_the_publisher_that_raised_it_and_its_proximity(tmp_path: Path) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            await car_and_reader(made)
            made.areas[0].nodes["car"].port.set(kind="car")
            await made.gateway(made.areas[0], "gate", "one")
            await until(lambda: made.areas[0].members("gate") >= 2)
            near = await made.reader("near", "two", publishers="kind = 'car'")
            far = await made.reader("far", "two")
            other = await made.reader("other", "two", publishers="kind = 'bus'")
            for client, x in ((near, 60.0), (far, 900.0), (other, 60.0)):
                await client.move(Point(x, 0.0))
            made.areas[0].nodes["car"].port.raise_("ice", {"depth": 3})
            await until(lambda: len(made.got["near"]) == 1)
            await far.move(Point(50.0, 0.0))
            made.areas[0].nodes["car"].port.raise_("ice", {"depth": 4})
            await until(lambda: len(made.got["near"]) == 2)
            await until(lambda: len(made.got["far"]) == 1)
            assert made.got["far"][0].attributes == {"depth": 4}
            assert made.got["other"] == []

    told(story)


@pytest.mark.parametrize("gateways", [1, 2])
def test_l9_an_event_of_a_client_reaches_who_is_in_its_audience_once(tmp_path: Path, gateways: int) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            area = made.areas[0]
            for name, x in (("inside", 30), ("outside", 800)):
                area.node(name, x)
                area.listen(name)
            for number in range(gateways):
                await made.gateway(area, f"gate{number}", ("one", "two")[number])
            await until(lambda: known(made, "outside") == known(made, "inside") == gateways)
            client = await made.reader("client", "two", "none")
            await client.move(Point(50.0, 0.0))
            around = Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "client"))
            await client.publish("ice", {"depth": 1}, audience=around)
            await until(lambda: area.depths("inside") == [1])
            await client.publish("ice", {"depth": 2})
            await until(lambda: area.depths("inside") == [1, 2] and area.depths("outside") == [2])
            await made.met(2)
            assert area.depths("inside") == [1, 2]
            assert area.depths("outside") == [2]
            event = area.got["inside"][0]
            assert (event.publisher.host, event.publisher.position) == ("client", Point(50.0, 0.0))
            assert sum(each.counts["left"] for each in made.gateways.values()) == 0

    told(story)


def test_l9_c5_in_an_area_of_contexts_the_publisher_is_judged_by_what_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with places(tmp_path, CONTEXT) as made:
            area = made.areas[0]
            area.node("reader", 30)
            area.listen("reader", publishers=Scope(None, parse_text("kind = 'van'")))
            await made.gateway(area, "gate", "one")
            van, bus = await made.reader("van", "two", "none"), await made.reader("bus", "two", "none")
            await van.move(Point(50.0, 0.0), attributes={"kind": "van"})
            await bus.move(Point(50.0, 0.0), attributes={"kind": "bus"})
            await bus.publish("ice", {"depth": 1}, expiry_s=60)
            await van.publish("ice", {"depth": 2}, expiry_s=60)
            await until(lambda: area.depths("reader"))
            assert area.depths("reader") == [2]
            assert area.got["reader"][0].publisher.host == "van"

    told(story)


def test_l9_events_go_from_one_area_to_another_with_another_protocol(tmp_path: Path) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY, CONTEXT) as made:
            await car_and_reader(made)
            await made.gateway(made.areas[0], "gate", "one")
            await until(lambda: made.areas[0].members("gate") >= 2)
            made.areas[1].node("walker", 40)
            made.areas[1].listen("walker")
            await made.gateway(made.areas[1], "door", "two")
            made.areas[0].nodes["car"].port.raise_("ice", {"depth": 3}, lifetime_s=60)
            await until(lambda: made.areas[1].depths("walker") == [3])
            assert made.areas[1].got["walker"][0].id == made.areas[0].got["reader"][0].id

    told(story)


def test_l9_l7_what_a_gateway_brings_that_is_not_trusted_is_dropped(tmp_path: Path) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            area = made.areas[0]
            for name in ("trusting", "wary"):
                area.node(name, 30)
                area.listen(name)
            area.nodes["wary"].seals.peers.gateways = ("another",)
            await made.gateway(area, "gate", "one")
            await until(lambda: area.members("trusting") == area.members("wary") == 1)
            client = await made.reader("client", "two", "none")
            await client.publish("ice", {"depth": 1})
            await until(lambda: area.depths("trusting") == [1])
            await until(lambda: area.nodes["wary"].air.drops.counts["stranger"])
            assert area.depths("wary") == []

    told(story)


def test_l9_a_client_that_floods_with_what_cannot_cross_is_told_of_in_a_few_lines(tmp_path: Path) -> None:
    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            area = made.areas[0]
            area.node("reader", 30)
            area.listen("reader", "ice")
            await made.gateway(area, "gate", "one", GatewaySettings(types=(ICE,)))
            gateway, said = made.gateways["gate"], list[str]()
            gateway.say = said.append
            client = await made.reader("client", "two", "none")
            for _ in range(120):
                await client.publish("ice", b'{"depth": "thick"}')
            await until(lambda: gateway.counts["type_mismatch"] == 120)
            assert len(said) == 11
            assert said[-1].startswith("did not cross, type_mismatch: 100 by now, the last of them ")

    told(story)


def test_l9_what_any_mqtt_client_says_crosses_as_it_seems_to_be(tmp_path: Path) -> None:
    """Also with QoS 0, and without knowing anything of types."""

    async def story() -> None:
        async with places(tmp_path, PROXIMITY) as made:
            area = made.areas[0]
            area.node("reader", 30)
            area.listen("reader", "weather/#")
            await made.gateway(area, "gate", "one", GatewaySettings())
            client = await made.reader("client", "two", "none")
            payload = json.dumps({"fog": True, "seen_m": 40, "more": [1, 2, 3, 4]}).encode()
            await client.publish("weather/fog", payload, qos=0)
            await client.publish("weather/fog", b"not json")
            await until(lambda: area.got["reader"])
            assert area.got["reader"][0].attributes == {"fog": True, "seen_m": 40}
            said: list[str] = []
            made.gateways["gate"].say = said.append
            await client.publish("weather/fog", b'{"fog": "thick", "seen_m": 40}')
            await until(lambda: made.gateways["gate"].counts["type_mismatch"] == 2)
            assert said[-1].startswith("did not cross, type_mismatch: ")
            assert said[-1].endswith("'weather/fog': attribute 'fog' must be boolean, not str")

    told(story)
