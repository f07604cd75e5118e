"""P2, P7: the same positions and events with other wishes, against the definition."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from roamcast.journal import Move, Published, Record, Subscribed
from roamcast.model.filter import parse_text
from roamcast.model.filter.write import to_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.spark import changed, differences, prepare, read_wishes, what_if
from roamcast.spark import expected as ideal
from roamcast.spark.tables import BadPipeline
from roamcast.spark.wishes import amount, set_wishes, wishes_of
from tests.spark.chain import pairs_of, surveyed, write_journal
from tests.spark.test_commands import invoke, simulated
from tests.spark.worlds import PERIOD_US, Small, expected, large_world

RULES = """
[[subscriptions]]
near = 200

[[subscriptions]]
of = "h1*"
filter = "level > 1"
interest = { circle_m = 90 }

[[subscriptions]]
about = "nobody subscribed to this"
drop = true

[[publications]]
of = "h*"
audience = 150
lifetime_s = 2

[[subscribe]]
by = "h[23]"
subject = "#"
filter = "near(position, 120)"
publishers = { circle = [50, 50, 70] }
"""


def wished(world: Small) -> Small:
    """The world as it would be by `RULES`, record by record and by other means than Spark's."""
    found: list[Record] = []
    up: dict[str, bool] = {}
    for record in world.records:
        found.append(changed_record(record))
        if isinstance(record, Move):
            if record.up and not up.get(record.host) and record.host in ("h2", "h3"):
                found.append(new_subscription(record.host, record.at_us))
            up[record.host] = record.up
    return replace(world, records=found)


def changed_record(record: Record) -> Record:
    if isinstance(record, Published):
        event = record.event
        audience = event.audience
        match audience.region:
            case Circle(centre):
                audience = Scope(Circle(centre, 150.0), audience.filter)
            case Anchored(Circle(centre), host, reference):
                audience = Scope(Anchored(Circle(centre, 150.0), host, reference), audience.filter)
        ends_us = event.published_us + 2_000_000
        return structs.replace(record, event=structs.replace(event, audience=audience, expires_us=ends_us))
    if isinstance(record, Subscribed):
        old = record.subscription
        text = re.sub(r"near\(([\w.]+), [\d.]+\)", r"near(\1, 200)", to_text(old.filter))
        new = structs.replace(old, filter=parse_text(text))
        if old.subscriber.startswith("h1"):
            around = Scope(Anchored(Circle(Point(0.0, 0.0), 90.0), old.subscriber))
            new = structs.replace(old, filter=parse_text("level > 1"), interest=around)
        return structs.replace(record, subscription=new)
    return record


def new_subscription(host: str, at_us: int) -> Subscribed:
    publishers = Scope(Circle(Point(50.0, 50.0), 70.0))
    content = parse_text("near(position, 120)")
    new = Subscription(f"what-if 1/{host}", host, "#", at_us, FOREVER_US, content, publishers=publishers)
    return Subscribed(host, at_us, new)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_p2_changed_wishes_are_judged_as_the_definition_does(spark: SparkSession, tmp_path: Path) -> None:
    """Tracks are not laid out again, and each pair is gained, lost or kept."""
    world = large_world(5, 25, Plane())
    write_journal(tmp_path, world.records, world.run())
    file = tmp_path / "wishes.toml"
    file.write_text(RULES)
    journal, settings = surveyed(spark, tmp_path, period_us=PERIOD_US, until_us=world.end_us)
    before = prepare(journal, str(tmp_path), settings)
    other = changed(journal, read_wishes(file), settings.space)
    after = prepare(other, str(tmp_path / "what-if"), moved=before)
    assert not list((tmp_path / "what-if").rglob("tracks"))
    one, two = expected(world), expected(wished(world))
    assert one.keys() - two.keys()
    assert two.keys() - one.keys()
    assert pairs_of(ideal(after)) == two
    pairs = what_if(ideal(before), ideal(after), journal).cache()
    found = {
        (row.event_id, row.subscription_id): (row.change, row.before_us, row.after_us) for row in pairs.collect()
    }
    assert found == {key: (kind(key, one, two), one.get(key), two.get(key)) for key in one.keys() | two.keys()}
    (total,) = differences(pairs).where("dimension = 'all'").collect()
    assert (total.before, total.after, total.gained - total.lost) == (len(one), len(two), len(two) - len(one))


def kind(key: Any, one: Any, two: Any) -> str:
    return "gained" if key not in one else "lost" if key not in two else "kept"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_l6_what_if_says_who_gains_and_who_loses(spark: SparkSession, tmp_path: Path) -> None:
    journal, counted = simulated(tmp_path)
    code, output, complaints = invoke("what-if", str(journal), "--set", "subject=nothing/#", "--json")
    assert (code, complaints) == (0, "")
    found = json.loads(output)
    nothing = {"value": "all", "before": counted["expected"], "after": 0, "gained": 0, "lost": counted["expected"]}
    assert found["total"] == nothing
    assert sum(line["lost"] for line in found["clients"]) == counted["expected"]
    page = (journal / "what-if" / "index.html").read_text()
    assert "{&#34;subject&#34;:&#34;nothing/#&#34;}" in page
    assert "<svg" in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nearly=3", "--set nearly=3: give NAME=VALUE, where NAME is one of audience, filter"),
        ("near=far", "--set near=far: Expecting value"),
        ('near="far"', "Expected `float | null`, got `str`"),
        ('interest={"ring": 3}', "Object contains unknown field `ring`"),
    ],
)
def test_l6_a_change_that_cannot_be_read_is_named(given: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=re.escape(said)):
        set_wishes([given])


def test_l6_what_if_nothing_is_changed() -> None:
    with pytest.raises(BadPipeline, match="no change given"):
        wishes_of([], None)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e300])
def test_l6_an_amount_that_nobody_can_mean_is_refused(value: float) -> None:
    with pytest.raises(BadPipeline, match="lifetime_s is"):
        amount("lifetime_s", value)
