"""Attributes of payloads that are not flat: which the settings say by topic (`[[keeping.payloads]]`).

The first table of which a topic filter fits says how a payload is read. A `format` knows what people send:

    json           the members of the object (docs/PROTOCOL.md, P-2)
    geojson        of a Feature: the members of `properties`, `position` from `geometry`, and `id`
    cloudevents    of an event: the members of `data`, `ce_type`, `ce_source`, `ce_id`, `ce_subject` and `ce_time`
    owntracks      of a location: `position`, `accuracy_m`, `speed_mps`, `heading_deg`, `battery` and `time`

and `attributes` adds others by path: `{ speed = "properties.speed", first = "readings.0.value" }`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from roamcast.broker.mqtt.content import attributes_in, attributes_of
from roamcast.model.space import Space
from roamcast.model.values import NAME_CHARS_MAX, SPEED_LIMIT_M_PER_S, Instant, Value
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.topics import check_topic_filter, matches

Given: TypeAlias = Mapping[str, object]

_decoder = msgspec.json.Decoder()
KMH_PER_MPS = 3.6
SECONDS_MAX = 1e10
CLOUD_NAMES = ("type", "source", "id", "subject", "time")
OWNTRACKS_NAMES = {"acc": "accuracy_m", "cog": "heading_deg", "batt": "battery"}


class PayloadParams(Struct, frozen=True, forbid_unknown_fields=True):
    """How payloads of some topics are read."""

    topics: tuple[str, ...]
    format: Literal["json", "geojson", "cloudevents", "owntracks"] = "json"
    attributes: dict[str, str] = {}
    """By name, where the value is: names of members and numbers of elements, with dots between."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("topics is empty; give topic filters, such as 'sensors/#'")
        for pattern in self.topics:
            try:
                check_topic_filter(pattern)
            except BadPacket as problem:
                raise ValueError(f"topics: {problem}") from problem
        for name, path in self.attributes.items():
            if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
                raise ValueError(f"attributes: '{name}' is no name of an attribute")
            if not all(path.split(".")):
                raise ValueError(f"attributes.{name}: '{path}' is no path; give names with dots between")


class Payloads:
    def __init__(self, params: tuple[PayloadParams, ...] = ()) -> None:
        self.params = params

    def attributes_of(self, topic: str, payload: bytes, space: Space) -> dict[str, Value]:
        for params in self.params:
            if any(matches(pattern, topic) for pattern in params.topics):
                return read(params, payload, space)
        return attributes_of(payload, space)


def read(params: PayloadParams, payload: bytes, space: Space) -> dict[str, Value]:
    """None of a payload that is no JSON."""
    try:
        given = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    by_path = {name: found for name, path in params.attributes.items() if (found := at_path(given, path)) is not None}
    told = FORMATS[params.format](given) if isinstance(given, dict) else {}
    # What the settings name comes first, where there is not room for all.
    return attributes_in({**by_path, **{name: each for name, each in told.items() if name not in by_path}}, space)


def at_path(given: object, path: str) -> object:
    """None where there is nothing."""
    for step in path.split("."):
        if isinstance(given, dict):
            given = given.get(step)
        elif isinstance(given, list) and step.isdecimal() and int(step) < len(given):
            given = given[int(step)]
        else:
            return None
    return given


# The formats.


def of_feature(given: Given) -> Given:
    if given.get("type") != "Feature":
        return given
    properties, geometry = given.get("properties"), given.get("geometry")
    place = {"position": geometry} if geometry is not None else {}
    own = properties if isinstance(properties, dict) else {}
    return {**place, **({"id": given["id"]} if "id" in given else {}), **own}


def of_cloud_event(given: Given) -> Given:
    if "specversion" not in given:
        return given
    data = given.get("data")
    own = {f"ce_{name}": given[name] for name in CLOUD_NAMES if name in given}
    if isinstance(time := own.get("ce_time"), str):
        own["ce_time"] = instant_of(time)
    return {**own, **(data if isinstance(data, dict) else {"data": data})}


def of_location(given: Given) -> Given:
    if given.get("_type") != "location":
        return given
    # Devices say -1 for what they do not know.
    told = {name: value for name, value in given.items() if value != -1}
    found = {ours: told[theirs] for theirs, ours in OWNTRACKS_NAMES.items() if theirs in told}
    if isinstance(speed := told.get("vel"), int | float) and abs(speed) < SPEED_LIMIT_M_PER_S:
        found["speed_mps"] = speed / KMH_PER_MPS
    if isinstance(at_s := told.get("tst"), int | float) and abs(at_s) < SECONDS_MAX:
        found["time"] = Instant(round(at_s * 1e6))
    return {**found, "position": [told.get("lon"), told.get("lat")]}


def instant_of(text: str) -> object:
    try:
        moment = datetime.fromisoformat(text)
        return Instant(round(moment.timestamp() * 1e6)) if moment.tzinfo else text
    except (ValueError, OverflowError):
        return text


FORMATS: Mapping[str, Callable[[Given], Given]] = {
    "json": lambda given: given,
    "geojson": of_feature,
    "cloudevents": of_cloud_event,
    "owntracks": of_location,
}
