"""Why an event is not to be delivered to a subscription, as a sentence for people.

Which condition fails is asked of the definition of matching (`model/match.py`); the words are about the values that
it looked at.
"""

from typing import Literal as Choice
from typing import TypeAlias

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import compile_predicate
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    And,
    Attribute,
    Filter,
    Literal,
    Mine,
    Near,
    Neighbours,
    Predicate,
    Publishers,
    Term,
    atoms,
    terms,
)
from roamcast.model.filter.write import predicate_text, term_text, to_text, value_text
from roamcast.model.match import Condition, includes, neighbours_of
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, placed
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Value

Failed: TypeAlias = Choice["filter", "interest", "relevance", "audience", "publishers", "expired", "withheld"]
Reason: TypeAlias = tuple[Failed, str]
READS_MAX = 6
"""So many values are named in a sentence."""
TEXT_CHARS_MAX = 200


def reason_of(
    failing: Condition, event: Event, wanted: Subscription, configuration: Configuration, moment_us: int
) -> Reason:
    match failing:
        case Condition.STANDARD:
            return "filter", filter_words(event, wanted, configuration)
        case Condition.LIFETIME:
            return "expired", lifetime_words(event, wanted, moment_us)
        case Condition.OVERLAP:
            return overlap_reason(event, wanted, configuration)
        case Condition.PUBLICATION_DOMAIN:
            publisher = event.publisher.host
            outside = outside_words(publisher, wanted.publishers, configuration)
            return "publishers", f"{publisher} is none of the publishers that are asked for: {outside}"
        case Condition.SUBSCRIPTION_DOMAIN:
            outside = outside_words(wanted.subscriber, event.audience, configuration)
            return "audience", f"{wanted.subscriber} is not in the audience of the event: {outside}"


# The five conditions.


def filter_words(event: Event, wanted: Subscription, configuration: Configuration) -> str:
    me = configuration.contexts.get(wanted.subscriber)
    neighbours = None if me is None else neighbours_of(me.host, configuration)
    scene = Scene(event.attributes.get, me, event.publisher, neighbours)
    return verdict_words(wanted.filter, scene, configuration)


def verdict_words(filter_: Filter, scene: Scene, configuration: Configuration) -> str:
    """Of a conjunction, the first of its parts that does not hold, with the values that it reads."""
    parts = filter_.root.parts if isinstance(filter_.root, And) else (filter_.root,)
    for part in parts:
        truth = compile_predicate(part, configuration.space, configuration.graph)(scene)
        if truth is not True:
            read = read_words(part, scene, configuration)
            verdict = "unknown" if truth is None else "false"
            return f"{shortened(predicate_text(part))} is {verdict}{f': {read}' if read else ''}"
    return f"{shortened(to_text(filter_))} is not true"


def read_words(part: Predicate, scene: Scene, configuration: Configuration) -> str:
    found: dict[str, str] = {}
    for atom in atoms(part):
        for term in terms(atom):
            value = value_of(term, scene)
            if isinstance(atom, Near) and isinstance(value, Point) and scene.me is not None and scene.me.position:
                metres = configuration.space.distance_m(scene.me.position, value)
                found.setdefault(term_text(term), f"{metres:.0f} m from {scene.me.host}")
            elif isinstance(atom, Near) and (scene.me is None or scene.me.position is None):
                found.setdefault("me.position", "missing")
            elif not isinstance(term, Literal | Neighbours):
                found.setdefault(term_text(term), value_words(value))
    return ", ".join(f"{name} is {value}" for name, value in list(found.items())[:READS_MAX])


def value_of(term: Term, scene: Scene) -> Value | None:
    match term:
        case Attribute(name):
            return scene.attribute(name)
        case Mine(name):
            return None if scene.me is None else scene.me.value(name)
        case Publishers(name):
            return None if scene.publisher is None else scene.publisher.value(name)
        case Literal(value):
            return value
        case Neighbours():
            return None


def value_words(value: Value | None) -> str:
    return "missing" if value is None else shortened(value_text(value))


def lifetime_words(event: Event, wanted: Subscription, moment_us: int) -> str:
    if event.expires_us < moment_us:
        return f"the event had expired {seconds(moment_us - event.expires_us)} before it came here"
    if wanted.issued_us > moment_us:
        return f"the subscription began {seconds(wanted.issued_us - moment_us)} after the event came here"
    return f"the subscription had expired {seconds(moment_us - wanted.expires_us)} before the event came here"


def overlap_reason(event: Event, wanted: Subscription, configuration: Configuration) -> Reason:
    relevant = {host for host in configuration.contexts if includes(event.relevance, host, configuration)}
    if not relevant:
        told = scope_words(event.relevance)
        return "relevance", f"no host that is known here is where the event is relevant: {told}"
    interesting = sum(includes(wanted.interest, host, configuration) for host in configuration.contexts)
    asked = scope_words(wanted.interest)
    if not interesting:
        return "interest", f"no host that is known here is where the subscription is interested: {asked}"
    return (
        "interest",
        f"{len(relevant)} hosts are where the event is relevant, {interesting} where the subscription is interested "
        f"({asked}), and none is in both",
    )


# Scopes.


def outside_words(host: str, scope: Scope, configuration: Configuration) -> str:
    """Why a host is not in a scope."""
    context = configuration.contexts.get(host)
    if context is None:
        return f"nothing is known of {host}, and it is for {scope_words(scope)}"
    if scope.region is not None and not includes(Scope(scope.region), host, configuration):
        where = distance_words(scope.region, context, configuration)
        return f"it is for hosts {region_words(scope.region)}, and {where}"
    if scope.filter is None:
        return scope_words(scope)
    return verdict_words(scope.filter, Scene(context.value, context, None, None), configuration)


def scope_words(scope: Scope) -> str:
    words = [] if scope.region is None else [f"hosts {region_words(scope.region)}"]
    words += [] if scope.filter is None else [f"hosts with {shortened(to_text(scope.filter))}"]
    return " and ".join(words) or "every host"


def region_words(region: Region) -> str:
    match region:
        case Anchored(Circle(_, radius_m), host):
            return f"within {radius_m:g} m of {host}"
        case Anchored(_, host):
            return f"in a region that moves with {host}"
        case Circle(centre, radius_m):
            return f"within {radius_m:g} m of ({centre.x:g}, {centre.y:g})"
        case Box(low, high):
            return f"between ({low.x:g}, {low.y:g}) and ({high.x:g}, {high.y:g})"
        case Polygon(corners):
            return f"in a polygon of {len(corners)} corners"


def distance_words(region: Region, context: Context, configuration: Configuration) -> str:
    here, space = context.position, configuration.space
    if here is None:
        return f"nobody knows where {context.host} is"
    shape = region
    if isinstance(region, Anchored):
        anchor = configuration.contexts.get(region.host)
        if anchor is None or anchor.position is None:
            return f"nobody knows where {region.host} is"
        shape = placed(region.shape, anchor.position, space, region.reference)
    if isinstance(shape, Circle):
        return f"{context.host} is {space.distance_m(shape.centre, here):.0f} m away"
    return f"{context.host} is at ({here.x:g}, {here.y:g})"


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


def seconds(duration_us: int) -> str:
    return f"{duration_us / 1e6:.3g} s"
