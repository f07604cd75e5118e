"""L6: the compiled kernel is loaded when something asks for it, and not before."""

import subprocess
import sys

import numpy as np

from roamcast.matching import kernel
from roamcast.matching.compiled import Compiled
from roamcast.matching.pool import ordered

PLAIN = """
import sys
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived, Asked, Published
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
core = Core("b", 1)
core.handle(1, Arrived("c", True, 0))
for number in range(200):
    core.handle(2, Asked("c", 1, (Subscription(parse_filter(f"t/{number}"), 1),)))
core.handle(3, Published("c", 1, Message("t/7", b"{}", 1)))
print("numba" in sys.modules)
"""


NEAR = """
import sys
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived, Asked, Published
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
core = Core("b", 1)
audience = core.border.audience
audience.prepare = lambda: setattr(audience, "ready", False)
near = (("filter", "near(position, 10)"),)
for number, client in enumerate("cd"):
    core.handle(1, Arrived(client, True, 0))
    core.handle(2, Published(client, 1, Message("$roam/me", b'{"position":[%d,0]}' % (100 * number), 1)))
core.handle(3, Published("d", 2, Message("t", b'{"position":[1,2]}', 1, retain=True)))
for client in "cd":
    core.handle(4, Asked(client, 1, (Subscription(parse_filter("t"), 1, user_properties=near),)))
core.handle(5, Published("d", 3, Message("t", b'{"position":[1,2]}', 1)))
print("numba" in sys.modules, audience.ready, [len(core.border.sessions[each].window) for each in "cd"])
"""


def said_by(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_plain_subscriptions_load_no_numba() -> None:
    assert said_by(PLAIN) == "False\n"


def test_no_event_waits_for_numba_while_it_is_loaded_aside() -> None:
    assert said_by(NEAR) == "False False [2, 0]\n"


def test_the_first_use_loads_the_kernel() -> None:
    assert Compiled().search is kernel.search_table


def test_few_are_ordered_as_many_are() -> None:
    numbers = np.random.default_rng(1).integers(0, 40, 500).astype(np.int32)
    for ours, compiled in zip(ordered(numbers, 40), kernel.ordered(numbers, 40), strict=True):
        assert ours.tolist() == compiled.tolist()
