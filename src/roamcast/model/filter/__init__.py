"""Filters: what is wanted, as a predicate in CQL2 (docs/reference/FILTERS.md).

Text or JSON is parsed once into a tree (`tree`), which is evaluated (`evaluate`, and `mask` for numpy), compared
(`covers`), joined (`merge`), bound to its reader (`bind`) and written again.
"""

from typing import TYPE_CHECKING

from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.model.filter.bad_filter import BadFilter
    from roamcast.model.filter.bound import bind
    from roamcast.model.filter.cover import covers
    from roamcast.model.filter.evaluate import accepts, compile_filter
    from roamcast.model.filter.explanation import Explanation, explain
    from roamcast.model.filter.merged import merge
    from roamcast.model.filter.parse import parse_text
    from roamcast.model.filter.read_json import parse_json
    from roamcast.model.filter.scene import Scene
    from roamcast.model.filter.tree import EVERYTHING, Filter
    from roamcast.model.filter.write import to_json, to_text

__all__ = [
    "EVERYTHING",
    "BadFilter",
    "Explanation",
    "Filter",
    "Scene",
    "accepts",
    "bind",
    "compile_filter",
    "covers",
    "explain",
    "merge",
    "parse_json",
    "parse_text",
    "to_json",
    "to_text",
]

__getattr__ = on_demand(
    "roamcast.model.filter",
    {
        "bad_filter": ("BadFilter",),
        "bound": ("bind",),
        "cover": ("covers",),
        "evaluate": ("accepts", "compile_filter"),
        "explanation": ("Explanation", "explain"),
        "merged": ("merge",),
        "parse": ("parse_text",),
        "read_json": ("parse_json",),
        "scene": ("Scene",),
        "tree": ("EVERYTHING", "Filter"),
        "write": ("to_json", "to_text"),
    },
)
