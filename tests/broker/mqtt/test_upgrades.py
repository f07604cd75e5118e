"""L8: a broker goes on from what one of an earlier version has stored (`keep.py` makes a directory of each)."""

import json
import shutil
from pathlib import Path

import pytest

from roamcast.broker.mqtt.inputs import Entry, Restarted, encode_batch
from roamcast.broker.mqtt.stored import STATE_VERSION, BadState, is_current, version_of
from roamcast.broker.mqtt.upgrades import UPGRADES, reaches
from roamcast.mqtt.packets import ConnAck, Publish, Subscribe, Wish
from roamcast.server.running import RunningBroker
from roamcast.server.storage import Log
from tests.broker.mqtt.keep import NAME, OFFER, READER, RETAINED, WAITING
from tests.broker.mqtt.test_running import Talk, connect, run, settings_of

KEPT = Path(__file__).parent / "kept"
VERSIONS = sorted(int(each.name) for each in KEPT.iterdir() if each.name.isdecimal())


def snapshot_in(directory: Path) -> bytes:
    log = Log.open(directory)
    try:
        snapshot = log.load().snapshot
        assert snapshot is not None
        return snapshot
    finally:
        log.close()


async def publications(talk: Talk, count: int) -> list[bytes]:
    """The next ones, among whatever else is said."""
    found = list[bytes]()
    while len(found) < count:
        packet = await talk.hear()
        if isinstance(packet, Publish):
            found.append(packet.payload)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_l8_what_an_earlier_version_stored_is_delivered_rule_71(tmp_path: Path, version: int) -> None:
    directory = tmp_path / NAME
    shutil.copytree(KEPT / str(version), directory)
    assert version_of(snapshot_in(directory)) == str(version)

    async def work() -> None:
        broker = RunningBroker(settings_of(tmp_path, NAME))
        await broker.start()
        talk, answer = await connect(broker, READER)
        assert isinstance(answer, ConnAck)
        assert answer.session_present
        *waiting, offer = await publications(talk, len(WAITING) + 1)
        assert waiting == [each.encode() for each in WAITING]
        assert json.loads(offer) == OFFER
        talk, _ = await connect(broker, "newcomer")
        await talk.say(Subscribe(1, (Wish("kept/+", 1),)))
        assert await publications(talk, 1) == [RETAINED.encode()]
        await broker.stop()

    run(work)
    assert is_current(snapshot_in(directory))


@pytest.mark.parametrize("version", VERSIONS)
def test_l8_inputs_that_an_earlier_version_logged_are_refused_rule_71(tmp_path: Path, version: int) -> None:
    directory = tmp_path / NAME
    shutil.copytree(KEPT / str(version), directory)
    batch = encode_batch([Entry(1, Restarted())])
    log = Log.open(directory)
    log.append(batch)
    log.close()

    async def work() -> None:
        with pytest.raises(BadState, match=f"of version {version}, .* stop it in order"):
            await RunningBroker(settings_of(tmp_path, NAME)).start()

    run(work)
    assert version_of(snapshot_in(directory)) == str(version)
    log = Log.open(directory)
    assert list(log.load().batches) == [batch]
    log.close()


def test_l8_every_version_that_can_be_read_is_kept_for_this_test() -> None:
    earlier = range(STATE_VERSION)
    assert [each for each in earlier if each in UPGRADES] == [each for each in earlier if each in VERSIONS]
    assert all(reaches(each, STATE_VERSION) for each in VERSIONS)
