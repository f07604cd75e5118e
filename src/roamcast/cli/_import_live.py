"""A live MQTT subscription into a journal, until somebody stops it.

There is no next fix to look at, so each one goes through the cleaner of its host as it comes and is written as it
stands: with the velocity that it tells, or that the fix before it gives. A host of which nothing was heard for
`gap` is gone, or unknown, or rests, as `in_gaps` says. Whether it rested nearby is not known yet: `near` is `gone`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from roamcast.cli._pubsub import Person, known
from roamcast.importer.fixes import MPS_PER_UNIT, BadImport, Reading
from roamcast.importer.rules import InGaps, Rules
from roamcast.importer.running import WRITER, earlier_run, run_of
from roamcast.importer.tabular import USUAL
from roamcast.importer.times import TimeColumn
from roamcast.journal import Journal, Move
from roamcast.model.space import Earth
from roamcast.movement.clean import Cleaner
from roamcast.movement.fix import Fix
from roamcast.movement.owntracks import BadReport, fix_of

FLUSH_S = 10
TICK_S = 1.0
OWNTRACKS_TOPIC = "owntracks"
HOSTS_MAX = 100_000

_decoder = msgspec.json.Decoder(dict[str, Any])


class Listening(Struct, frozen=True):
    """What is listened to, and for how long; 0: for ever."""

    topic: str
    count: int = 0
    seconds: float = 0.0


class Heard(Struct):
    messages: int = 0
    unreadable: int = 0
    refused: int = 0
    moves: int = 0


class Notebook:
    """From messages to moves, without a clock or a network."""

    def __init__(self, record: Callable[[Move], None], rules: Rules, reading: Reading) -> None:
        self.heard = Heard()
        self._write, self._rules, self._reading = record, rules, reading
        self._space = Earth()
        self._cleaners: dict[str, Cleaner] = {}
        self._last_us: dict[str, int] = {}
        """When each host that is there was last heard of."""
        self._times: dict[str, TimeColumn] = {}

    @property
    def hosts(self) -> int:
        return len(self._cleaners)

    def take(self, topic: str, payload: bytes, now_us: int) -> None:
        self.heard.messages += 1
        try:
            host, fix = self._read(topic, payload, now_us)
        except (BadReport, BadImport):
            self.heard.unreadable += 1
            return
        if host not in self._cleaners and len(self._cleaners) >= HOSTS_MAX:
            self.heard.refused += 1
            return
        used = self._cleaners.setdefault(host, Cleaner(self._space, self._rules.limits)).add(fix)
        if used is None:
            self.heard.refused += 1
            return
        told = fix if self._rules.velocity == "told" else used
        velocity = None if self._rules.velocity == "none" else told.velocity
        self._record(Move(host, used.at_us, used.point, velocity))
        self._last_us[host] = used.at_us

    def look(self, now_us: int) -> None:
        """Hosts that have not been heard of for too long are not where they were."""
        if self._rules.in_gaps is InGaps.REST:
            return
        gap_us = self._rules.limits.gap_us
        for host in [host for host, last_us in self._last_us.items() if now_us - last_us > gap_us]:
            at_us = self._last_us.pop(host) + gap_us
            self._record(Move(host, at_us, None, up=self._rules.in_gaps is InGaps.UNKNOWN))

    def _record(self, move: Move) -> None:
        self._write(move)
        self.heard.moves += 1

    def _read(self, topic: str, payload: bytes, now_us: int) -> tuple[str, Fix]:
        """Raises `BadReport` or `BadImport`."""
        try:
            said = _decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
            raise BadReport(str(problem)) from None
        fix = fix_of(payload, now_us) if "_type" in said else self._fix_of_object(said, now_us)
        return self._host(topic, said), fix

    def _host(self, topic: str, said: dict[str, Any]) -> str:
        levels = topic.split("/")
        if self._reading.host_name:
            try:
                return self._reading.host_name.format(*levels)
            except (IndexError, KeyError, ValueError):
                raise BadImport(f"--host-name '{self._reading.host_name}' does not fit topic '{topic}'") from None
        if levels[0] == OWNTRACKS_TOPIC:
            return "/".join(levels[1:]) or topic
        return str(self._value(said, "host") or topic)

    def _fix_of_object(self, said: dict[str, Any], now_us: int) -> Fix:
        lon, lat = self._number(said, "lon"), self._number(said, "lat")
        if lon is None or lat is None:
            raise BadReport("no longitude and latitude")
        speed = self._number(said, "speed")
        return Fix(
            self._time_us(said, now_us),
            (lon, lat),
            None if speed is None else speed * MPS_PER_UNIT[self._reading.speed_unit],
            self._number(said, "heading"),
            self._number(said, "accuracy"),
        )

    def _time_us(self, said: dict[str, Any], now_us: int) -> int:
        name = self._name(said, "time")
        if name not in said:
            return now_us
        column = self._times.setdefault(name, TimeColumn(name, self._reading.times, "the message"))
        try:
            found = column.to_us(pa.array([said[name]]))[0].as_py()
        except pa.ArrowException as problem:
            raise BadReport(str(problem)) from None
        if found is None:
            raise BadReport("no time")
        return int(found)

    def _number(self, said: dict[str, Any], field: str) -> float | None:
        value = self._value(said, field)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def _value(self, said: dict[str, Any], field: str) -> Any:
        return said.get(self._name(said, field))

    def _name(self, said: dict[str, Any], field: str) -> str:
        given: str = getattr(self._reading.columns, field)
        return given or next((name for name in said if name.lower() in USUAL[field]), "")


def import_live(
    person: Person,
    listening: Listening,
    journal: Path,
    *,
    rules: Rules,
    reading: Reading,
    append: bool = False,
    progress: Callable[[Notebook], None] = lambda _: None,
) -> Notebook:
    """Until it has heard enough or is interrupted, which is the usual end."""
    earlier = earlier_run(journal, append=append)
    run = run_of(earlier, Earth(), now(), absolute=True)
    with Journal(journal, run) as written:
        notebook = Notebook(written.record, rules, reading)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(listen(person, listening, notebook, written, progress))
        notebook.look(now())
        written.end(now())
    return notebook


async def listen(
    person: Person,
    listening: Listening,
    notebook: Notebook,
    journal: Journal,
    progress: Callable[[Notebook], None],
) -> None:
    async def watch() -> None:
        seconds = 0
        while True:
            await asyncio.sleep(TICK_S)
            seconds += 1
            notebook.look(now())
            progress(notebook)
            if seconds % FLUSH_S == 0:
                journal.flush()

    async with known(person, WRITER) as client:
        await client.subscribe(listening.topic, qos=1)
        watching = asyncio.create_task(watch())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(listening.seconds or None):
                    async for event in client.events():
                        notebook.take(event.subject, event.payload, now())
                        if notebook.heard.messages == listening.count:
                            return
        finally:
            watching.cancel()


def now() -> int:
    return time.time_ns() // 1_000
