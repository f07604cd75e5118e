"""A filter explained to a person: how it was understood, what it reads, and what it needs to know of its reader."""

from typing import TypeAlias

from msgspec import Struct

from roamcast.model.filter.cover import covers
from roamcast.model.filter.normal import CASES_MAX, cases
from roamcast.model.filter.tree import (
    TRUE,
    And,
    AtMyLoc,
    Atom,
    Attribute,
    Closing,
    Constant,
    Filter,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    Or,
    Predicate,
    Publishers,
    Term,
    atoms,
    children,
    conjunction,
    terms,
)
from roamcast.model.filter.write import predicate_text, to_text
from roamcast.model.space import Plane, Space

INDENT = "  "
AVERAGES = {"avg": "average", "min": "smallest", "max": "largest"}
NEEDS = {
    "attributes": "the reader's own attributes",
    "position": "the reader's position",
    "velocity": "the reader's velocity",
    "place": "the reader's place, and a movement graph",
    "neighbours": "the reader's neighbours",
    "publisher's velocity": "the publisher's velocity",
}
"""What a filter may need to know beyond the event, and how that is said; in the order in which it is listed."""

Section: TypeAlias = tuple[str, tuple[str, ...]]


class Explanation(Struct, frozen=True):
    text: str
    """The filter as the system writes it."""
    tree: tuple[str, ...]
    """Its parts, one a line, indented by depth."""
    normal_form: tuple[str, ...]
    """The cases in which it is true, one a line."""
    reads: tuple[str, ...]
    """What it reads, in words, in the order of the text."""
    needs: tuple[str, ...]
    """Keys of `NEEDS`: without these some condition is unknown."""
    covering: tuple[str, ...] = ()
    """How it and another filter cover each other, if another one was given."""

    def sections(self) -> tuple[Section, ...]:
        """All of it as headings with lines below, ready to print; a section without lines is left out."""
        needs = tuple(NEEDS[each] for each in self.needs)
        found: tuple[Section, ...] = (
            ("text", (self.text,)),
            ("tree", self.tree),
            ("true when", self.normal_form),
            ("reads", self.reads or ("nothing",)),
            ("needs to know", needs or ("nothing but the event",)),
            ("covering", self.covering),
        )
        return tuple(section for section in found if section[1])


def explain(filter_: Filter, other: Filter | None = None, space: Space | None = None) -> Explanation:
    """With an `other` filter, also whether one covers the other in the space, a plane unless given."""
    return Explanation(
        text=to_text(filter_),
        tree=tuple(tree_lines(filter_.root, 0)),
        normal_form=normal_lines(filter_.root),
        reads=tuple(dict.fromkeys(words for atom in atoms(filter_.root) for words in what_is_read(atom))),
        needs=needs_of(filter_),
        covering=() if other is None else covering_lines(filter_, other, Plane() if space is None else space),
    )


def tree_lines(part: Predicate, depth: int) -> list[str]:
    match part:
        case And():
            heading = "AND: all of"
        case Or():
            heading = "OR: one of"
        case Not():
            heading = "NOT"
        case Constant(None):
            heading = "UNKNOWN: never true, nor is its opposite"
        case _:
            heading = predicate_text(part)
    below = [line for child in children(part) for line in tree_lines(child, depth + 1)]
    return [INDENT * depth + heading, *below]


def normal_lines(root: Predicate) -> tuple[str, ...]:
    found = cases(root)
    if found is None:
        return (f"one of more than {CASES_MAX} cases holds: too many to list, and covering goes by looks alone",)
    if not found:
        return ("never",)
    return tuple("always" if not case else predicate_text(conjunction(list(case))) for case in found)


def what_is_read(atom: Atom) -> list[str]:
    """The terms of an atom in words; literals are read from nowhere."""
    return [words for term in terms(atom) if (words := in_words(term))]


def in_words(term: Term) -> str:
    match term:
        case Literal():
            return ""
        case Attribute(name):
            return f"{name} of the event (in a scope, of the host)"
        case Mine(name):
            return f"{name} of the reader"
        case Publishers(name):
            return f"{name} of the publisher, as the event carries it"
        case Neighbours("count", _, where):
            return f"the number of the reader's neighbours{those(where)}"
        case Neighbours(aggregate, name, where):
            return f"the {AVERAGES[aggregate]} {name} among the reader's neighbours{those(where)}"


def those(where: Predicate) -> str:
    return "" if where == TRUE else f" with {predicate_text(where)}"


def needs_of(filter_: Filter) -> tuple[str, ...]:
    """What must be known beyond the event's own content, in the order of `NEEDS`."""
    found = {need for atom in atoms(filter_.root) for need in needs_of_atom(atom)}
    return tuple(need for need in NEEDS if need in found)


def needs_of_atom(atom: Atom) -> list[str]:
    found: list[str] = []
    for term in terms(atom):
        match term:
            case Mine("position"):
                found.append("position")
            case Mine():
                found.append("attributes")
            case Neighbours(_, _, where):
                found.append("neighbours")
                found += [need for inner in atoms(where) for need in needs_of_atom(inner)]
            case _:
                pass
    match atom:
        case Near():
            found.append("position")
        case Closing(position):
            found += ["position", "velocity"]
            if position == Publishers("position"):
                found.append("publisher's velocity")
        case AtMyLoc():
            found.append("place")
        case _:
            pass
    return found


def covering_lines(filter_: Filter, other: Filter, space: Space) -> tuple[str, ...]:
    return (
        covering_line(filter_, other, space),
        covering_line(other, filter_, space),
    )


def covering_line(wide: Filter, narrow: Filter, space: Space) -> str:
    verdict = "covers" if covers(wide, narrow, space) else "is not known to cover"
    return f"{to_text(wide)}   {verdict}   {to_text(narrow)}"
