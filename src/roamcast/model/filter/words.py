"""The words of the filter language: its keywords, its functions with how they are written, and what it leaves out."""

import difflib
import re

KEYWORDS = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "NULL", "TRUE", "FALSE")
GEOMETRIES = ("POINT", "POLYGON", "MULTIPOLYGON")
OTHER_GEOMETRIES = ("LINESTRING", "MULTIPOINT", "MULTILINESTRING", "GEOMETRYCOLLECTION")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
CONNECTIVES = ("and", "or", "not", "in", "like", "between", "isnull")
"""Operations of CQL2-JSON that have no function of their name in text."""
AGGREGATES = ("count", "avg", "min", "max")
QUANTIFIERS = ("any", "all")
"""Of neighbours; conditions by themselves."""

USAGE = {
    "s_intersects": "S_INTERSECTS(position, POLYGON(...))",
    "s_within": "S_WITHIN(position, POLYGON(...))",
    "s_contains": "S_CONTAINS(POLYGON(...), position)",
    "s_disjoint": "S_DISJOINT(position, POLYGON(...))",
    "t_after": "T_AFTER(time, TIMESTAMP('...'))",
    "t_before": "T_BEFORE(time, TIMESTAMP('...'))",
    "t_equals": "T_EQUALS(time, TIMESTAMP('...'))",
    "t_during": "T_DURING(time, INTERVAL('...', '...'))",
    "t_intersects": "T_INTERSECTS(time, INTERVAL('...', '...'))",
    "t_disjoint": "T_DISJOINT(time, INTERVAL('...', '...'))",
    "near": "near(position, metres) or near(position, metres, POINT(x y))",
    "nearer": "nearer(position, metres, POINT(x y))",
    "approaching": "approaching(position)",
    "receding": "receding(position)",
    "myloc": "place IN myloc(steps)",
    "neighbours.count": "neighbours.count() or neighbours.count(condition)",
    "neighbours.avg": "neighbours.avg('attribute') or neighbours.avg('attribute', condition)",
    "neighbours.min": "neighbours.min('attribute') or neighbours.min('attribute', condition)",
    "neighbours.max": "neighbours.max('attribute') or neighbours.max('attribute', condition)",
    "neighbours.any": "neighbours.any(condition)",
    "neighbours.all": "neighbours.all(condition)",
}
"""Every function of the language, by its name in lower case."""

CONSTRUCTORS = ("POINT", "POLYGON", "MULTIPOLYGON", "BBOX", "TIMESTAMP", "DATE", "INTERVAL")

ARITHMETIC = ("+", "-", "*", "/", "%", "^", "div")
NO_ARITHMETIC = "arithmetic is not part of the filter language; compare attributes and literal values as they are"
LEFT_OUT = {
    **dict.fromkeys(ARITHMETIC, NO_ARITHMETIC),
    "casei": "CASEI is not part of the filter language; LIKE and = tell upper from lower case",
    "accenti": "ACCENTI is not part of the filter language; LIKE and = compare text exactly",
    "!=": "use <> for 'not equal'",
    "==": "use = for 'equal'",
}
"""What other languages, or the rest of CQL2, have: what to say about it."""

PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:]*")
QUOTED_WORDS = frozenset((*KEYWORDS, "DIV"))


def is_plain_name(name: str) -> bool:
    """Whether an attribute of this name can be written without double quotes."""
    return PLAIN_NAME.fullmatch(name) is not None and name.upper() not in QUOTED_WORDS


def about_unknown(name: str) -> str:
    """What to say about a function that the language does not have."""
    left_out = LEFT_OUT.get(name.lower())
    if left_out is not None:
        return left_out
    known = {**{each.lower(): each for each in CONSTRUCTORS}, **{each: each for each in USAGE}}
    nearest = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    if nearest:
        found = nearest[0]
        return f"unknown function '{shown(name)}'; did you mean {USAGE.get(found, known[found])}?"
    return f"unknown function '{shown(name)}'; known are {', '.join(USAGE)}"


def shown(text: str, limit: int = 40) -> str:
    """Given text, short enough and clean enough to stand in a message."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(c if c.isprintable() else "?" for c in cut)
