"""O7, section 2.3: applications say which of the events that wait too many to discard."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from roamcast.broker.messages import Attach, Pub
from roamcast.broker.modulators.registry import REGISTRY, registered
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.overlay.discarding import least_missed
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BrokerParams
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Value
from roamcast.mqtt.limits import SessionLimits
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import Stage
from tests.broker.test_overlay_adaptors import Bench
from tests.broker.test_overlay_posts import event_of

NAME = "tests/odd"


class Odd:
    """Passes everything; of what waits it misses the first with an even number least, then the last."""

    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None:
        pass

    def take(self, event: Event, now_us: int) -> list[Event]:
        return [event]

    def state(self) -> bytes:
        return b""

    def load(self, state: bytes) -> None:
        pass

    def discard(self, waiting: Sequence[Event]) -> int:
        even = (index for index, each in enumerate(waiting) if int(str(each.attributes["n"])) % 2 == 0)
        return next(even, len(waiting) - 1)


@pytest.fixture(autouse=True)
def odd() -> None:
    if NAME not in REGISTRY:
        registered(NAME)(Odd)


def kept_for_an_away_client(modulator: str) -> list[str]:
    bench = Bench(OverlayParams(clients=BrokerParams(counterpart_events_max=3)))
    broker = bench.broker
    broker._hear(
        0, Attach(2, 0, "first", (Subscription("D/s", "D", "x", 0, FOREVER_US, modulator=modulator),)), "D", 1
    )
    broker._hear(0, Attach(1, 0, "first"), "P", 1)
    broker.clients.unreachable(0, "D")
    for serial in range(1, 7):
        event = replace(event_of("P", serial), attributes={"n": serial})
        broker._hear(0, Pub(serial, event), "P", 1)
    return [str(each.event.attributes["n"]) for each in broker.clients.sessions["D"].window.entries.values()]


def test_o7_the_home_broker_discards_what_the_application_misses_least() -> None:
    assert kept_for_an_away_client(NAME) == ["1", "3", "6"]


def test_o7_without_a_function_the_oldest_goes() -> None:
    assert kept_for_an_away_client("") == ["4", "5", "6"]


@pytest.mark.parametrize("answer", [-1, 7, "none"])
def test_o7_an_answer_that_is_none_means_the_oldest(answer: int) -> None:
    assert least_missed(lambda _: answer, [event_of("P", 1), event_of("P", 2)]) == 0


@pytest.mark.parametrize(("modulator", "kept"), [(NAME, [1, 3, 6]), ("", [1, 2, 3])])
def test_o7_so_does_the_session_of_an_mqtt_client_that_is_away(modulator: str, kept: list[int]) -> None:
    scene = Scene.__new__(Scene)
    params = CoreParams(session=SessionLimits(queue_messages_max=3))
    scene.stage = Stage(1, (("a", "b"),), core_params=params, overlay=OverlayParams(update_period_s=1.0))
    scene.rest(5.0)
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    properties = {"modulator": modulator} if modulator else {}
    scene.subscribe(reader, "t", 1, None, **properties)
    scene.rest(2.0)
    reader.drop()
    scene.rest(1.0)
    for number in range(1, 7):
        scene.publish(writer, "t", {"n": number})
    scene.move(reader, "a")
    assert [int(each.decode().strip("{}").split(":")[1]) for each in reader.taken] == kept
