"""L7: no bytes of a stranger are worth a traceback, and `make fuzz` would tell."""

import asyncio
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from roamcast.mqtt import Decoder
from tests.fuzz.decoders import TARGETS, Packets, Target
from tests.fuzz.processes import Failed, FuzzedBroker, FuzzedNode, Watched

ROUNDS = 40


@pytest.mark.parametrize("make", TARGETS)
def test_l7_spoilt_bytes_raise_nothing(make: type[Target]) -> None:
    target = make()
    rng = Random(f"1 {target.name}")
    assert sum(target.take(rng) for _ in range(ROUNDS)) >= ROUNDS


@pytest.mark.process
@pytest.mark.parametrize("make", [FuzzedBroker, FuzzedNode])
def test_l7_spoilt_bytes_end_no_process(make: type[FuzzedBroker | FuzzedNode], tmp_path: Path) -> None:
    async def work() -> None:
        fuzzed = make(tmp_path)
        await fuzzed.start()
        try:
            assert await fuzzed.round(Random(1)) > 0
        finally:
            await fuzzed.stop()

    asyncio.run(work())


def test_a_decoder_that_raises_is_found() -> None:
    target, rng = Packets(), Random(1)
    with patch.object(Decoder, "next_packet", side_effect=KeyError), pytest.raises(KeyError):
        target.take(rng)


@pytest.mark.parametrize("said", ["Traceback (most recent call last):\n", "one line\nand another\n"])
def test_a_traceback_or_two_lines_for_one_input_are_found(said: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("is ready\n")
    watched = Watched(output)
    watched.look(1)
    with output.open("a") as file:
        file.write(said)
    with pytest.raises(Failed):
        watched.look(1)
