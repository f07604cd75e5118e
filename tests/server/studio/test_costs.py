"""L5: no question of a page keeps the broker from its work."""

import json
from urllib.parse import quote

import pytest

from roamcast.broker.mqtt.core import Core
from roamcast.model.context import Configuration, Context
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.server.http.users import Who
from roamcast.server.security import Identity, Policy
from roamcast.server.studio.answers import Answers
from roamcast.server.studio.explaining import HOSTS_ASKED_MAX
from roamcast.server.studio.past import Known
from roamcast.server.studio.watcher import Watcher

HOSTS = 1_000


@pytest.mark.parametrize(
    ("filter_", "matches", "left_out"), [("x = 1", HOSTS, 0), ("neighbours.count() = 0", 51, HOSTS - 51)]
)
def test_l5_what_a_filter_asks_of_neighbours_is_tried_on_as_many_clients_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch, filter_: str, matches: int, left_out: int
) -> None:
    looked_at = 0
    neighbours = Configuration.neighbours

    def counted(configuration: Configuration, host: str) -> list[Context]:
        nonlocal looked_at
        looked_at += len(configuration.contexts)
        return neighbours(configuration, host)

    monkeypatch.setattr(Configuration, "neighbours", counted)
    watcher = Watcher(Core("b", 1))
    for number in range(HOSTS):
        name = f"c{number}"
        watcher.past.put(0, name, Known(Context(name, Point(float(number), 0.0), attributes={"x": 1}), True))
    answers = Answers(watcher, lambda: 0)
    everybody = Who(Identity(""), None, Policy(Plane()), {}, True)
    told = json.loads(bytes(answers.tried(everybody, f"filter={quote(filter_)}").body))
    assert looked_at <= HOSTS_ASKED_MAX + HOSTS
    assert (len(told["clients"]), told["left_out"]) == (matches, left_out)
