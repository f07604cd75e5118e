"""S9, section 5 of STEAM: a network that reaches everybody, and nodes that discard what comes from too far away."""

from roamcast.model.values import Point
from tests.multicast.lan import Lan, run, until

RANGE_M = 60.0


def test_frames_from_farther_away_than_the_range_are_discarded() -> None:
    async def story() -> None:
        async with Lan() as lan:
            near = lan.node("near", 50, emulated_range_m=RANGE_M)
            far = lan.node("far", 110, emulated_range_m=RANGE_M)
            producer = lan.node("producer", emulated_range_m=RANGE_M)
            for name in ("near", "far"):
                lan.listen(name)
            lan.announce("producer", 55.0)
            await until(lambda: lan.members("near"))
            await until(lambda: far.air.drops.counts["out_of_range"])
            producer.port.raise_("ice", {"depth": 1})
            await until(lambda: lan.depths("near"))
            assert "farther than 60 m" in far.air.drops.first["out_of_range"]
            assert near.air.drops.counts["out_of_range"] == 0
            assert lan.members("far") == 0
            # It comes nearer, and hears the next beacon.
            far.move(Point(40.0, 0.0))
            await until(lambda: lan.members("far"))
            producer.port.raise_("ice", {"depth": 2})
            await until(lambda: lan.depths("far") == [2])

    run(story)


def test_who_does_not_say_where_it_is_is_not_heard() -> None:
    async def story() -> None:
        async with Lan() as lan:
            careful = lan.node("careful", emulated_range_m=RANGE_M)
            lan.node("silent", 10)
            lan.announce("silent")
            await until(lambda: careful.air.drops.counts["out_of_range"])
            assert "the distance to" in careful.air.drops.first["out_of_range"]
            assert careful.host.host.node.discovery.relevant == {}  # type: ignore[attr-defined]

    run(story)
