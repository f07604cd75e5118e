"""L2: what a broker remembers depends on the clients that it has, and not on how many it has had."""

from collections import deque
from typing import Any

import msgspec
import numpy as np

from roamcast.broker.mqtt.core import Core
from roamcast.broker.stream import GOT_EVERY
from roamcast.mqtt.packets import Will
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient

COUNTED = (dict, list, set, deque)
BOUNDED = ("_messages", "marks", "ended")
"""Memories of what was last, each with a bound of its own."""


def sizes_of(thing: object) -> dict[str, int]:
    """Of every collection that can be reached from an object, by the way to it."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("", thing)])
    while waiting:
        path, each = waiting.popleft()
        if id(each) in seen or isinstance(each, str | bytes | int | float | np.ndarray | type(None)):
            continue
        seen.add(id(each))
        if isinstance(each, COUNTED):
            found[path] = found.get(path, 0) + len(each)
            inner = each.values() if isinstance(each, dict) else each
            waiting += [(f"{path}[]", value) for value in inner]
        elif isinstance(each, msgspec.Struct) or type(each).__module__.startswith("roamcast"):
            names: Any = (
                getattr(each, "__struct_fields__", None)
                or getattr(each, "__slots__", None)
                or getattr(each, "__dict__", ())
            )
            waiting += [(f"{path}.{name}", getattr(each, name)) for name in names if name not in BOUNDED]
    return found


def visit(scene: Scene, number: int) -> None:
    """A client comes, does everything, roams and is gone."""
    client = SimClient(scene.stage, f"c{number}", expiry_s=1)
    client.connect("a", will=Will("will", b"gone", 2, delay_s=1))
    scene.rest()
    for pattern in ("t/#", f"of/{number}", f"$share/g{number}/t/+", f"$roam/n{number}/t/x"):
        scene.subscribe(client, pattern, qos=2, filter="n > 0", expiry="60")
    scene.subscribe(client, f"$share/h{number}/t/+")
    scene.report(client, position=[number, 1], velocity=[1, 0])
    for qos in (0, 1, 2):
        scene.publish(client, "t/x", {"n": 1}, qos=qos)
        scene.publish(client, f"of/{number}", {"n": 1}, qos=qos, retain=True)
    scene.publish(client, f"of/{number}", b"", retain=True)
    scene.move(client, "b")
    client.drop()
    scene.rest(5.0)


def test_l2_nothing_grows_with_the_clients_that_have_been_there() -> None:
    scene = Scene("ab")
    cores = [broker.server.core for broker in scene.stage.brokers.values()]
    sizes: list[list[dict[str, int]]] = []
    for rounds in (3, 9):
        for number in range(rounds):
            visit(scene, 100 * rounds + number)
        scene.rest(100.0)
        sizes.append([sizes_of(core) for core in cores])
    before, after = sizes
    grown = [
        f"{core.host}{path}: {was.get(path, 0)} -> {size}"
        for core, was, now in zip(cores, before, after, strict=True)
        for path, size in now.items()
        if size > max(was.get(path, 0), GOT_EVERY if path.endswith("streams.of[].waiting") else 0)
    ]
    assert grown == []


def test_l2_the_look_for_what_grows_sees_what_a_client_leaves() -> None:
    scene = Scene()
    core: Core = scene.stage.brokers["a"].server.core
    before = sizes_of(core)
    client = scene.client("c")
    scene.subscribe(client, "$share/g/t")
    scene.publish(client, "t", b"x")
    after = sizes_of(core)
    grown = [path for path, size in after.items() if size > before.get(path, 0)]
    assert {
        f".border.{each}" for each in ("groups._turns", "groups.members", "audience._members", "sessions")
    } <= set(grown)
