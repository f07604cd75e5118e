"""Changed wishes: a journal with the same positions and events, and other subscriptions, scopes or lifetimes.

    [[subscriptions]]                 # changes those that it names, by wildcards; one that names none changes all
    of = "car-1*"                     # the subscriber
    about = "town/*"                  # the topic filter as it was subscribed
    near = 300                        # metres of every near(position, ...) in the filter
    filter = "severity >= 4"          # another filter; also subject, interest, publishers, and drop = true

    [[publications]]
    about = "town/warning"
    audience = 500                    # a number: circles keep their centre and get this radius
    relevance = { circle_m = 500 }    # an object: another scope, as clients write it (docs/PROTOCOL.md)
    lifetime_s = 10                   # also drop = true

    [[subscribe]]                     # one more, for every host that it names, whenever the host appears
    by = "car-*"
    subject = "town/jam"

Rules apply in this order. Only filters are rewritten in Python; the rest are columns.
"""

import fnmatch
import json
from dataclasses import replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import filter_of, plain_filter, plain_scope
from roamcast.journal.schema import SCOPE
from roamcast.model.filter.tree import EVERYTHING, And, Filter, Near, Not, Or, Predicate
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.scope_text import ScopeText, read_filter
from roamcast.model.space import Space
from roamcast.model.subject import check_pattern
from roamcast.model.values import FOREVER_US
from roamcast.spark.journal import Journal
from roamcast.spark.prepare import ORDER
from roamcast.spark.tables import SUBSCRIPTIONS, BadPipeline, columns, struct_of

WHO_SAYS_IT = "\0"
"""In place of the anchor's name, where a scope goes with the host of its row."""
AMOUNT_MAX = 9e9
ScopeChange: TypeAlias = float | ScopeText | None


class Rule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    of: str = "*"
    about: str = "*"
    drop: bool = False


class SubscriptionRule(Rule, frozen=True):
    subject: str | None = None
    near: float | None = None
    filter: str | None = None
    interest: ScopeChange = None
    publishers: ScopeChange = None


class PublicationRule(Rule, frozen=True):
    relevance: ScopeChange = None
    audience: ScopeChange = None
    lifetime_s: float | None = None


class Subscribe(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    subject: str
    by: str = "*"
    filter: str | None = None
    interest: ScopeText | None = None
    publishers: ScopeText | None = None


class Wishes(Struct, frozen=True, forbid_unknown_fields=True):
    subscriptions: tuple[SubscriptionRule, ...] = ()
    publications: tuple[PublicationRule, ...] = ()
    subscribe: tuple[Subscribe, ...] = ()


def read_wishes(file: Path) -> Wishes:
    """The rules in a file (TOML)."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Wishes)
    except (OSError, ValueError) as problem:
        raise BadPipeline(f"{file}: {problem}") from problem


def wishes_of(assignments: list[str], file: Path | None) -> Wishes:
    """As a command is given them: first what is set for all, then the rules of the file."""
    if not assignments and file is None:
        raise BadPipeline("no change given; use --set NAME=VALUE or --wishes FILE")
    one, other = set_wishes(assignments), read_wishes(file) if file else Wishes()
    return Wishes(one.subscriptions + other.subscriptions, one.publications + other.publications, other.subscribe)


def set_wishes(assignments: list[str]) -> Wishes:
    """The rules that `--set NAME=VALUE` stands for, which change all subscriptions and publications."""
    given: dict[type[Rule], dict[str, Any]] = {SubscriptionRule: {}, PublicationRule: {}}
    names = {name: kind for kind in given for name in set(kind.__struct_fields__) - set(Rule.__struct_fields__)}
    for each in assignments:
        name, equals, value = each.partition("=")
        if not equals or name not in names:
            raise BadPipeline(f"--set {each}: give NAME=VALUE, where NAME is one of {', '.join(sorted(names))}")
        try:
            read = value if name in ("filter", "subject") else json.loads(value)
            msgspec.convert({name: read}, names[name])
        except ValueError as problem:
            raise BadPipeline(f"--set {each}: {problem}") from problem
        given[names[name]][name] = read
    return Wishes(
        *(((msgspec.convert(values, kind),) if values else ()) for kind, values in given.items())  # type: ignore[arg-type]
    )


def changed(journal: Journal, wishes: Wishes, space: Space) -> Journal:
    """The journal as it would be with these wishes, lazily: `replace` with frames of your own does the same."""
    subscriptions = reduce(
        lambda frame, rule: subscriptions_by(rule, frame, space), wishes.subscriptions, journal.subscriptions
    )
    publications = reduce(
        lambda frame, rule: publications_by(rule, frame, space), wishes.publications, journal.publications
    )
    for number, rule in enumerate(wishes.subscribe):
        subscriptions = subscriptions.unionByName(subscribed_by(rule, number, journal, space))
    return replace(journal, subscriptions=subscriptions, publications=publications)


def subscriptions_by(rule: SubscriptionRule, frame: DataFrame, space: Space) -> DataFrame:
    meant = matching("subscriber", rule.of) & matching("subject", rule.about)
    if rule.drop:
        return frame.where(~meant)
    content = F.col("filter") if rule.filter is None else F.lit(filter_text("filter", rule.filter))
    if rule.near is not None:
        content = nearer(amount("near", rule.near))(content)
    new = {
        "subject": F.col("subject") if rule.subject is None else F.lit(pattern(rule.subject)),
        "filter": content,
        **{name: scope_column(name, getattr(rule, name), "subscriber", space) for name in ("interest", "publishers")},
    }
    return frame.withColumns({name: F.when(meant, to).otherwise(F.col(name)) for name, to in new.items()})


def publications_by(rule: PublicationRule, frame: DataFrame, space: Space) -> DataFrame:
    meant = matching("publisher.host", rule.of) & matching("subject", rule.about)
    if rule.drop:
        return frame.where(~meant)
    expires = F.col("expires_us")
    if rule.lifetime_s is not None:
        expires = F.col("published_us") + F.lit(round(amount("lifetime_s", rule.lifetime_s) * 1e6))
    new = {
        "expires_us": expires,
        **{
            name: scope_column(name, getattr(rule, name), "publisher.host", space)
            for name in ("relevance", "audience")
        },
    }
    return frame.withColumns({name: F.when(meant, to).otherwise(F.col(name)) for name, to in new.items()})


def subscribed_by(rule: Subscribe, number: int, journal: Journal, space: Space) -> DataFrame:
    """A subscription of each host that is meant, from every time it appears."""
    before = F.lag("up", 1, False).over(Window.partitionBy("host").orderBy(*ORDER))
    appears = journal.moves.where(matching("host", rule.by)).withColumn("before", before).where("up AND NOT before")
    text = plain_filter(EVERYTHING) if rule.filter is None else filter_text("filter", rule.filter)
    new = {
        "subscription_id": F.concat(F.lit(f"what-if {number + 1}/"), F.col("host")),
        "subscriber": F.col("host"),
        "subject": F.lit(pattern(rule.subject)),
        "issued_us": F.col("at_us"),
        "expires_us": F.lit(FOREVER_US),
        "filter": F.lit(text),
        **{
            name: scope_column(name, getattr(rule, name) or ScopeText(), "host", space)
            for name in ("interest", "publishers")
        },
        "modulator": F.lit(""),
    }
    return appears.withColumns(new).select(*SUBSCRIPTIONS.columns)


def matching(name: str, wildcards: str) -> Column:
    return F.lit(True) if wildcards == "*" else F.col(name).rlike("^" + fnmatch.translate(wildcards))


def scope_column(name: str, change: ScopeChange, host: str, space: Space) -> Column:
    if change is None:
        return F.col(name)
    if isinstance(change, int | float):
        radius = F.lit(amount(name, change))
        circle = F.col(f"{name}.region.shape") == "circle"
        return F.when(circle, F.col(name).withField("region.radius_m", radius)).otherwise(F.col(name))
    try:
        scope = change.scope(WHO_SAYS_IT, space)
    except ValueError as problem:
        raise BadPipeline(f"{name}: {problem}") from problem
    return scope_literal(scope, host)


def scope_literal(scope: Scope, host: str) -> Column:
    plain = plain_scope(scope)
    known = F.from_json(F.lit(json.dumps({"scope": plain})), struct_of(columns(scope=SCOPE)))["scope"]
    anchored = scope != EVERYWHERE and plain["region"] is not None and "anchor" in plain["region"]
    return known.withField("region.anchor", F.col(host)) if anchored else known


def pattern(text: str) -> str:
    try:
        check_pattern(text)
    except ValueError as problem:
        raise BadPipeline(f"subject: {problem}") from problem
    return text


def filter_text(name: str, text: str) -> str:
    try:
        return plain_filter(read_filter(text))
    except ValueError as problem:
        raise BadPipeline(f"{name}: {problem}") from problem


def amount(name: str, value: float) -> float:
    """Metres or seconds; more would not be counted in microseconds."""
    if not 0 <= value <= AMOUNT_MAX:
        raise BadPipeline(f"{name} is {value:g}; give 0 to {AMOUNT_MAX:g}")
    return float(value)


def nearer(metres: float) -> Any:
    """A function of Spark that sets the metres of `near` in filters."""
    return F.udf(lambda text: rewritten(text, metres), "string")


@lru_cache(maxsize=10_000)
def rewritten(text: str, metres: float) -> str:
    """Each filter once a worker: many subscriptions have the same."""
    return plain_filter(Filter(with_metres(filter_of(text).root, metres)))


def with_metres(part: Predicate, metres: float) -> Predicate:
    match part:
        case And(parts):
            return And(tuple(with_metres(each, metres) for each in parts))
        case Or(parts):
            return Or(tuple(with_metres(each, metres) for each in parts))
        case Not(inner):
            return Not(with_metres(inner, metres))
        case Near(position):
            return Near(position, metres)
        case _:
            return part
