"""L5, L8: whoever looks on at a broker can make mistakes, and the broker neither notices nor differs from its log."""

import inspect
from typing import Any, cast

import pytest

from roamcast.live.broker.chronicle import Chronicle
from roamcast.live.broker.effects import AnyEffect, Remark
from roamcast.live.broker.inputs import Left
from roamcast.live.broker.onlooker import TOLD, GuardedOnlooker, Onlooker
from tests.live.broker.scene import Scene


class Mistaken:
    """Breaks down when it is told of one thing, and counts the others. It is an `Onlooker` by the names in `TOLD`."""

    def __init__(self, about: str) -> None:
        self.told: list[str] = []
        for name in TOLD:
            setattr(self, name, self._hearing(name, name == about))

    def _hearing(self, name: str, breaks: bool) -> Any:
        def hear(*_: object) -> None:
            self.told.append(name)
            if breaks:
                raise KeyError(name)

        return hear


def test_l5_everything_that_an_onlooker_is_told_is_guarded() -> None:
    told = {name for name, _ in inspect.getmembers(Onlooker, inspect.isfunction) if not name.startswith("_")}
    assert set(TOLD) == told
    problems: list[str] = []
    for name in TOLD:
        problems.clear()
        guarded = GuardedOnlooker(cast(Onlooker, Mistaken(name)), lambda what, _: problems.append(what))
        for _ in range(2):
            getattr(guarded, name)(*[None] * (len(inspect.signature(getattr(Onlooker, name)).parameters) - 1))
        assert problems == [name]


def test_l5_an_onlooker_that_fails_is_told_nothing_more_and_that_is_remarked() -> None:
    effects: list[AnyEffect] = []
    ended: list[bool] = []
    chronicle = Chronicle(effects.append)
    onlooker = Mistaken("away")
    chronicle.look_on(cast(Onlooker, onlooker), lambda: ended.append(True))
    for _ in range(2):
        chronicle.gone("somebody")
        chronicle.away("somebody")
    assert onlooker.told == ["gone", "away"]
    assert chronicle.onlooker is None
    assert effects == [Remark("onlooker_failed", "away: KeyError('away')")]
    assert ended == [True]


@pytest.mark.parametrize("about", TOLD)
def test_l8_a_broker_whose_onlooker_fails_serves_its_clients_and_comes_back_from_its_log(about: str) -> None:
    scene = Scene("ab")
    for name in "ab":
        scene.stage.brokers[name].server.core.station.chronicle.look_on(cast(Onlooker, Mistaken(about)))
    reader, writer, third = scene.client("reader"), scene.client("writer"), scene.client("third", "b")
    for each in (reader, third):
        scene.subscribe(each, "t", 2)
    for qos in (0, 1, 2):
        scene.publish(writer, "t", b"%d" % qos, qos)
    scene.unsubscribe(third, "t")
    scene.move(third, "a")
    third.drop()
    scene.rest()
    assert reader.taken == [b"0", b"1", b"2"]
    assert third.taken == [b"0", b"1", b"2"]
    station = scene.stage.brokers["a"].server.core.station
    connected = {name: visitor.connected for name, visitor in station.visitors.items()}
    assert connected == {"reader": True, "writer": True, "third": False}
    scene.stage.brokers["a"].server.give(Left("third", 0, True))
    scene.rest()
    assert "third" not in station.visitors


def test_l5_an_onlooker_of_plain_messages_may_fail_too() -> None:
    scene = Scene()
    onlooker = cast(Onlooker, Mistaken("published_plainly"))
    scene.stage.brokers["a"].server.core.station.chronicle.look_on(onlooker)
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    for number in range(3):
        scene.publish(writer, "t", b"%d" % number, 0)
    assert reader.taken == [b"0", b"1", b"2"]
    assert scene.remarks().count("onlooker_failed") == 1
