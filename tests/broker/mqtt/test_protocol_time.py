"""docs/PROTOCOL.md, section 17: the clock of a broker."""

from pathlib import Path

from roamcast.clock import SteadyClock, boot_id
from roamcast.server.running import RunningBroker
from roamcast.server.storage.kept_clock import keep_clock
from tests.broker.mqtt.test_running import connect, run, settings_of

HOUR_US = 3_600_000_000


def test_a_broker_that_starts_again_goes_on_with_its_clock_p94(tmp_path: Path) -> None:
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


def test_a_broker_whose_machine_started_anew_goes_on_behind_what_is_logged_p94(tmp_path: Path) -> None:
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
