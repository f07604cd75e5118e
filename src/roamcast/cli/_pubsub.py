"""What `roamcast pub` and `roamcast sub` do: a client of brokers that a person is.

Apart from the commands themselves, so that others need not import all of the live system.
"""

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from rich.markup import escape

from roamcast.client import Client, ClientEvent
from roamcast.client.content import attributes_of
from roamcast.model.filter import BadFilter, parse_text
from roamcast.model.region import Circle
from roamcast.model.subject import BadSubject, check_pattern, check_subject
from roamcast.model.values import Point, Value
from roamcast.movement.fix import Source
from roamcast.printable import shown, shown_json
from roamcast.server.transport.tls import trusting
from roamcast.terminal import stderr

Outcome = TypeVar("Outcome")


class BadWords(ValueError):
    """What was asked for cannot be; the message says why."""


class Person(Struct, frozen=True):
    """Who talks, and to whom."""

    brokers: tuple[str, ...]
    name: str = ""
    at: str = ""
    location: str = ""
    user: str = ""
    password: str = ""
    authority: str = ""

    @property
    def position(self) -> Point | None:
        if not self.at:
            return None
        try:
            x, y = (float(each) for each in self.at.split(","))
        except ValueError:
            raise BadWords(f"--at is '{self.at}'; give two numbers, as in 24.94,60.17") from None
        return Point(x, y)


class Publication(Struct, frozen=True):
    subject: str
    content: str
    within_m: float = 0.0
    qos: int = 1
    retain: bool = False
    expiry_s: int = 0


class Wish(Struct, frozen=True):
    subject: str
    filter: str = ""
    near_m: float = 0.0
    qos: int = 1
    count: int = 0
    seconds: float = 0.0
    as_json: bool = False

    @property
    def text(self) -> str | None:
        """Of the whole filter."""
        if self.near_m < 0:
            raise BadWords(f"--near is {self.near_m:g}; give metres above 0")
        if self.filter:
            try:
                parse_text(self.filter)
            except BadFilter as problem:
                raise BadWords(f"--filter: {problem}") from None
        parts = [f"({self.filter})"] if self.filter else []
        if self.near_m:
            parts.append(f"near(position, {self.near_m!r})")
        return " AND ".join(parts) or None


def publish(person: Person, publication: Publication) -> bool:
    position = person.position
    if publication.within_m and position is None:
        raise BadWords("--within needs --at, its centre")
    checked(check_subject, publication.subject)
    if publication.within_m < 0:
        raise BadWords(f"--within is {publication.within_m:g}; give metres above 0")

    async def work() -> bool:
        async with known(person, "pub") as client:
            if position is not None:
                await client.move(position)
            async for content in contents(publication.content):
                await client.publish(
                    publication.subject,
                    content_of(content),
                    qos=publication.qos,
                    audience=Circle(position, publication.within_m) if position and publication.within_m else None,
                    expiry_s=publication.expiry_s or None,
                    retain=publication.retain,
                )
        return True

    return run(work())


def source_of(person: Person) -> Source | None:
    """Sources know the simulator's models of movement, which take long to load: only for who has one."""
    if not person.location:
        return None
    from roamcast.movement import source

    return source(person.location)


def subscribe(person: Person, wish: Wish) -> bool:
    text, position = wish.text, person.position
    if wish.near_m and position is None and not person.location:
        raise BadWords("--near needs your position: give --at or --location")
    checked(check_pattern, wish.subject)
    followed = source_of(person)

    async def work() -> bool:
        async with known(person, "sub") as client, contextlib.AsyncExitStack() as watching:
            if position is not None:
                await client.move(position)
            if followed is not None:
                from roamcast.movement.waiting import Lookout

                watching.enter_context(Lookout((await client.follow(followed)).missing, grumble))
            await client.subscribe(wish.subject, text, qos=wish.qos)
            stderr.print(f"subscribed at {client.broker}", style="dim", highlight=False)
            came = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wish.seconds or None):
                    async for number in show(client.events(), wish):
                        came = number
        return came >= wish.count

    return run(work())


def checked(check: Callable[[str], None], subject: str) -> None:
    """Before anybody is asked."""
    try:
        check(subject)
    except BadSubject as problem:
        raise BadWords(str(problem)) from None


def grumble(text: str) -> None:
    stderr.print(escape(shown(text)), style="yellow", soft_wrap=True, highlight=False)


async def show(events: AsyncIterator[ClientEvent], wish: Wish) -> AsyncIterator[int]:
    """Prints what comes, until it is enough; answers each time how many it were."""
    count = 0
    async for event in events:
        print(as_json(event) if wish.as_json else as_line(event), flush=True)
        count += 1
        yield count
        if count == wish.count:
            return


@asynccontextmanager
async def known(person: Person, kind: str) -> AsyncIterator[Client]:
    """With a name of its own the session stays."""
    context = trusting(Path(person.authority)) if person.authority else None
    try:
        client = Client(
            person.name or f"{kind}-{secrets.token_hex(4)}",
            person.brokers,
            username=person.user or None,
            password=person.password or None,
            ssl=context,
            resume=bool(person.name),
        )
    except ValueError as problem:
        raise BadWords(str(problem)) from None
    with stderr.status("looking for a broker") as looking:
        async with client:
            looking.stop()
            yield client


async def contents(text: str) -> AsyncIterator[str]:
    if text != "-":
        yield text
        return
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.rstrip("\n")


def content_of(text: str) -> Mapping[str, Value] | bytes:
    """Attributes if it is a JSON object of such values as events have; else the text as it is."""
    payload = text.encode()
    try:
        whole = json.loads(text)
    except ValueError as problem:
        if text.lstrip().startswith("{"):
            grumble(f"this is not JSON ({problem}): it is sent as text, and filters see no attributes of it")
        return payload
    found = attributes_of(payload)
    return found if isinstance(whole, dict) and set(found) == set(whole) else payload


def as_line(event: ClientEvent) -> str:
    return shown(f"{event.subject} {event.payload.decode(errors='replace')}")


def as_json(event: ClientEvent) -> str:
    """With what the payload says, if that is JSON too and no deeper than can be written again; else with its text."""
    told = {"subject": event.subject, "content": None, "qos": event.qos, "retained": event.retained}
    if event.id is not None:
        told["id"] = event.id
    try:
        line = json.dumps({**told, "content": json.loads(event.payload)}, ensure_ascii=False)
    except (ValueError, RecursionError):
        line = json.dumps({**told, "content": event.payload.decode(errors="replace")}, ensure_ascii=False)
    return shown_json(line)


def run(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    return asyncio.run(work)
