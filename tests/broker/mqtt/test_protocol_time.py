"""docs/PROTOCOL.md, section 17: the clock of a broker."""

from pathlib import Path

import pytest

from roamcast.clock import SteadyClock, boot_id
from roamcast.server.running import RunningBroker
from roamcast.server.storage.kept_clock import keep_clock
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.test_running import connect, run, settings_of

HOUR_US = 3_600_000_000


def test_a_broker_that_starts_again_goes_on_with_its_clock_rule_94(tmp_path: Path) -> None:
    async def work() -> None:
        settings, ahead = settings_of(tmp_path, "a"), SteadyClock(SteadyClock().anchor_us + HOUR_US)
        for _ in range(2):
            broker = RunningBroker(settings)
            await broker.start()
            before_us, now_us, after_us = ahead.now_us(), broker.server.now_us(), ahead.now_us()
            await broker.stop()
            # As if somebody had set the system clock back after the first start.
            keep_clock(Path(settings.data), boot_id(), ahead)
        assert before_us <= now_us <= after_us + 1

    run(work)


def test_a_broker_whose_machine_started_anew_goes_on_behind_what_is_logged_rule_94(tmp_path: Path) -> None:
    async def work() -> None:
        settings = settings_of(tmp_path, "a")
        first = RunningBroker(settings)
        await first.start()
        first.clock.anchor_us += HOUR_US
        last_us = first.server.now_us()
        await connect(first, "reader")
        await first.stop()
        keep_clock(Path(settings.data), "the boot before", SteadyClock())
        second = RunningBroker(settings)
        await second.start()
        assert second.server.now_us() >= last_us
        await second.stop()

    run(work)


HOUR_US = 3_600_000_000


def apart(ahead: str, brokers: str = "ab") -> Scene:
    """The clock of one broker is an hour ahead of the others'."""
    scene = Scene(brokers)
    for one, other in scene.stage.edges:
        scene.stage.unlink(one, other)
    scene.stage.brokers[ahead].behind_us = -HOUR_US
    scene.rest()
    scene.stage.heal()
    scene.rest()
    return scene


@pytest.mark.parametrize("ahead", ["a", "b", "c"])
def test_messages_expire_in_time_at_brokers_whose_clocks_differ_rule_94(ahead: str) -> None:
    scene = apart(ahead, "abc")
    writer = scene.client("writer", "a")
    readers = [scene.client(f"reader-{each}", each) for each in "abc"]
    for reader in readers:
        scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"lasts a minute", expiry_s=60)
    for reader in readers:
        (told,) = published(reader)
        assert told.message_expiry_s is not None
        assert 55 <= told.message_expiry_s <= 62
        reader.drop()
    scene.publish(writer, "t", b"expires while they are away", expiry_s=60)
    scene.rest(100.0)
    scene.publish(writer, "t", b"stays")
    for reader in readers:
        scene.move(reader, reader.name[-1])
        assert reader.taken == [b"lasts a minute", b"stays"]


def test_what_waits_expires_in_time_also_where_its_client_goes_rule_94() -> None:
    scene = apart("b")
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    for expiry_s in (60, 600):
        scene.publish(writer, "t", b"%d" % expiry_s, expiry_s=expiry_s)
    scene.rest(100.0)
    scene.move(reader, "b")
    assert reader.taken == [b"600"]


def test_brokers_whose_clocks_differ_say_so_once_for_each_link_rule_94() -> None:
    scene = apart("b")
    for name, sign in (("a", "+"), ("b", "-")):
        (told,) = [detail for what, detail in scene.stage.brokers[name].monitor.said if what == "clocks_differ"]
        assert f": by {sign}3" in told
    assert "clocks_differ" not in Scene("ab").remarks()
