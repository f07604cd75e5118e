"""What people write to a node and read from it: types, events and deliveries as lines of text.

ice(depth: integer, where: position)            a type: its subject and what its events hold
ice depth=3 where=24.94,60.17                   an event of it
{"subject": "ice", "attributes": {"depth": 3}}  the same, for programs
withdraw ice                                    ends what this node raised of it and still lasts
"""

import re
import shlex
from datetime import UTC, datetime

import msgspec
from msgspec import Struct, field

from roamcast.model.context import Context
from roamcast.model.event import BadEvent, ContentType, Event, EventType
from roamcast.model.region import Box, Polygon, rectangle
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Instant, Point, Value
from roamcast.printable import shown, shown_json

SAY = EventType("say", {"text": ContentType.STRING})
"""What a node announces that was told nothing: a line that is no event is said as it is."""
TYPE = re.compile(r"([^()]+?)\s*(?:\(([^()]*)\))?\s*")
TYPES = ", ".join(each.value for each in ContentType)


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """An event to raise."""

    subject: str
    attributes: dict[str, object] = field(default_factory=dict)


_wishes = msgspec.json.Decoder(Wish)


def event_type_of(text: str) -> EventType:
    found = TYPE.fullmatch(text.strip())
    if found is None:
        raise BadEvent(f"'{text}' is not an event type; write SUBJECT or SUBJECT(NAME: TYPE, ...)")
    subject, inside = found.groups()
    content: dict[str, ContentType] = {}
    for part in (inside or "").split(","):
        if not part.strip():
            continue
        name, _, word = (each.strip() for each in part.partition(":"))
        if word not in ContentType.__members__.values():
            raise BadEvent(f"'{text}': '{name}' needs a type, one of {TYPES}")
        content[name] = ContentType(word)
    return EventType(subject, content)


def wish_of(line: str, types: dict[str, EventType]) -> tuple[str, dict[str, Value]]:
    """The subject and attributes that a line asks to raise."""
    if line.lstrip().startswith("{"):
        try:
            wish = _wishes.decode(line)
        except msgspec.MsgspecError as problem:
            raise BadEvent(f"not an event in JSON: {problem}") from problem
        words = {name: as_word(value) for name, value in wish.attributes.items()}
        return wish.subject, attributes_of(type_among(wish.subject, types), words)
    if said_as_text(line, types) is not None:
        return SAY.subject, {"text": line.strip()}
    subject, words = words_of(line)
    if subject == SAY.subject and types.get(subject) == SAY and "=" not in line:
        # Talk that begins with this word.
        return SAY.subject, {"text": line.strip()}
    return subject, attributes_of(type_among(subject, types), words)


def withdrawal_of(line: str, types: dict[str, EventType]) -> str | None:
    """The subject whose events a line withdraws; none where `withdraw` is a type itself, or talk."""
    command, _, subject = line.strip().partition(" ")
    subject = subject.strip()
    return subject if command == "withdraw" and command not in types and subject in types else None


def said_as_text(line: str, types: dict[str, EventType]) -> str | None:
    """The first word of a line that names no type and is therefore talk; none if the line is an event."""
    if line.lstrip().startswith("{") or SAY.subject not in types:
        return None
    subject, _ = words_of(line)
    return None if subject in types else subject


def words_of(line: str) -> tuple[str, dict[str, str]]:
    """The first word of a line, and the `name=value`s after it."""
    try:
        subject, *parts = shlex.split(line)
    except ValueError:
        # A quotation mark without its fellow, as in what people say to each other.
        subject, parts = line.strip(), []
    words: dict[str, str] = {}
    for part in parts:
        name, equals, word = part.partition("=")
        words[name if equals else part] = word
    return subject, words


def type_among(subject: str, types: dict[str, EventType]) -> EventType:
    found = types.get(subject)
    if found is None:
        raise BadEvent(f"'{subject}' is not announced; announced are {', '.join(types) or 'none'}")
    return found


def attributes_of(event_type: EventType, words: dict[str, str]) -> dict[str, Value]:
    """Values of the announced types; what the type does not know is for the port to refuse."""
    return {
        name: value_of(word, event_type.content[name], name) if name in event_type.content else word
        for name, word in words.items()
    }


def value_of(word: str, content_type: ContentType, name: str) -> Value:
    try:
        match content_type:
            case ContentType.INTEGER:
                return int(word)
            case ContentType.DOUBLE:
                return float(word)
            case ContentType.STRING:
                return word
            case ContentType.BOOLEAN:
                return {"true": True, "false": False}[word.lower()]
            case ContentType.TIME:
                moment = datetime.fromisoformat(word)
                moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
                return Instant(round(moment.timestamp() * 1e6))
            case ContentType.POSITION:
                return point_of(word)
    except (ValueError, KeyError) as problem:
        raise BadEvent(f"{name}={word}: is no {content_type.value}") from problem


def point_of(text: str) -> Point:
    x, comma, y = text.partition(",")
    try:
        if comma:
            return Point(float(x), float(y))
    except ValueError:
        pass
    raise BadValue(f"'{text}' is not a position; write two numbers separated by a comma")


def shape_of(text: str) -> Box | Polygon:
    """`box 400x100` in metres around, or `polygon 0,0 100,0 100,50` in metres from here, east and north."""
    word, _, rest = text.strip().partition(" ")
    try:
        if word == "box":
            width_m, height_m = (float(each) for each in rest.split("x"))
            return rectangle(width_m, height_m)
        if word == "polygon":
            return Polygon(tuple(point_of(corner) for corner in rest.split()))
    except ValueError as problem:
        raise BadValue(f"shape '{text}': {problem}") from problem
    raise BadValue(f"shape '{text}': write box WIDTHxHEIGHT or polygon X,Y X,Y X,Y, in metres around the node")


def own_attribute_of(text: str) -> tuple[str, Value]:
    """`name=value` of a host's own context: a number, true or false if it looks like one, else text."""
    name, equals, word = text.partition("=")
    if not equals or not name:
        raise BadValue(f"attribute '{text}': write NAME=VALUE")
    for content_type in (ContentType.BOOLEAN, ContentType.INTEGER, ContentType.DOUBLE):
        try:
            return name, value_of(word, content_type, name)
        except BadEvent:
            continue
    return name, word


def as_word(value: object) -> str:
    """A value of JSON as it would be written in a line."""
    match value:
        case bool():
            return str(value).lower()
        case [x, y]:
            return f"{x},{y}"
        case _:
            return str(value)


# What is read.


def plain(value: Value) -> object:
    match value:
        case Point(x, y):
            return [x, y]
        case Instant(us):
            return datetime.fromtimestamp(us / 1e6, UTC).isoformat()
        case _:
            return value


def distance_m(event: Event, me: Context, space: Space) -> float | None:
    """How far away it was raised."""
    there = event.publisher.position
    return None if there is None or me.position is None else space.distance_m(there, me.position)


def delivery_line(event: Event, now_us: int, me: Context, space: Space) -> str:
    moment = datetime.fromtimestamp(now_us / 1e6).astimezone().strftime("%H:%M:%S.%f")[:-3]
    away_m = distance_m(event, me, space)
    where = "" if away_m is None else f", {away_m:.0f} m away"
    content = " ".join(f"{name}={shlex.quote(str(plain(value)))}" for name, value in event.attributes.items())
    return shown(f"{moment}  {event.subject}  from {event.publisher.host}{where}  {content}".rstrip())


def delivery_json(event: Event, subscription_id: str, now_us: int, me: Context, space: Space) -> str:
    told = {
        "event": event.id,
        "subject": event.subject,
        "publisher": event.publisher.host,
        "attributes": {name: plain(value) for name, value in event.attributes.items()},
        "published_us": event.published_us,
        "delivered_us": now_us,
        "distance_m": distance_m(event, me, space),
        "subscription": subscription_id,
    }
    return shown_json(msgspec.json.encode(told).decode())
