"""Routing strategies (R2): what a broker asks of a neighbour, given what everybody else asks of the broker.

For each neighbour there is one `Asking`. It is told of every wish that comes or goes at any other source, and answers
with what to ask of the neighbour and what to withdraw, in an order that never leaves a gap: first ask, then withdraw.

| strategy | is asked of a neighbour | size of tables |
|---|---|---|
| flooding | nothing: every event goes everywhere | none |
| simple | every wish | grows with the subscriptions |
| identity | one wish for each different filter | grows with the different filters |
| covering | only wishes that no other one covers | |
| merging | covers made for the purpose, where they are exact or one is better than many | smallest |

Guarantee: what is asked of the neighbour accepts every event that a wish at another source accepts; all but merging
ask for nothing else (Rebeca, section 2.2). When a wish goes whose equal stays, the neighbour hears nothing: so a
client that moves changes routes between its old broker and its new one, and nowhere else (section 4.1).
"""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.finding import Demand, demand_of, may_cover
from roamcast.broker.wishes import Wish, wish_covers
from roamcast.model.filter.cover import covers
from roamcast.model.filter.merged import merge
from roamcast.model.filter.tree import Filter
from roamcast.model.space import Plane, Space
from roamcast.model.topics import TopicTrie

Strategy: TypeAlias = Literal["flooding", "simple", "identity", "covering", "merging"]
Key: TypeAlias = tuple[str, str]
"""The source of a wish and its id there."""
Shown: TypeAlias = tuple[Key, Filter, Demand | None]
"""Whose a wish is, its filter, and what that demands at least."""


class Change(Struct, frozen=True):
    ask: tuple[Wish, ...] = ()
    withdraw: tuple[str, ...] = ()


NOTHING = Change()


class Asking(Protocol):
    def add(self, source: str, wish: Wish) -> Change: ...
    def remove(self, source: str, wish_id: str) -> Change: ...
    def asked(self) -> list[Wish]:
        """What the neighbour has been asked for."""
        ...


class AskNothing:
    """Flooding: events go everywhere unasked."""

    def add(self, source: str, wish: Wish) -> Change:
        return NOTHING

    def remove(self, source: str, wish_id: str) -> Change:
        return NOTHING

    def asked(self) -> list[Wish]:
        return []


class AskEach:
    """Identity routing: equal wishes are asked for once, under a name of our own."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.wanted: dict[Key, Wish] = {}
        self.count: dict[str, int] = {}
        self.sent: dict[str, Wish] = {}
        self._made = 0

    def _content(self, wish: Wish) -> object:
        """What makes two wishes one."""
        return (wish.subject, wish.filter)

    def _named(self, wish: Wish) -> str:
        self._made += 1
        return f"i{self._made}"

    def add(self, source: str, wish: Wish) -> Change:
        self.wanted[(source, wish.id)] = wish
        content = self._content(wish)
        name = self.names.get(content)
        if name is not None:
            self.count[name] += 1
            return NOTHING
        name = self.names[content] = self._named(wish)
        self.count[name] = 1
        self.sent[name] = replace(wish, id=name)
        return Change(ask=(self.sent[name],))

    def remove(self, source: str, wish_id: str) -> Change:
        content = self._content(self.wanted.pop((source, wish_id)))
        name = self.names[content]
        self.count[name] -= 1
        if self.count[name]:
            return NOTHING
        del self.names[content], self.count[name], self.sent[name]
        return Change(withdraw=(name,))

    def asked(self) -> list[Wish]:
        return list(self.sent.values())


class AskAll(AskEach):
    """Simple routing: every subscription is asked for, under the name that its border gave it. One that is wanted in
    two places, since its client has moved, is still one."""

    def _content(self, wish: Wish) -> object:
        return (wish.id, wish.subject, wish.filter)

    def _named(self, wish: Wish) -> str:
        """Two sources may use one name for different wishes."""
        if wish.id not in self.sent:
            return wish.id
        self._made += 1
        return f"s{self._made} {wish.id}"


class AskWidest:
    """Covering routing: a wish that another one covers is hidden behind it, and comes out when that one goes."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.shown: dict[Key, Wish] = {}
        self.flat = isinstance(space, Plane)
        self.by_subject: TopicTrie[Shown] = TopicTrie()
        """The same, so that a wish is held against those alone whose subjects cover its own."""
        self.hidden: dict[Key, dict[Key, Wish]] = {}
        """Behind each shown wish, those that it hides."""
        self.behind: dict[Key, Key] = {}
        self.names: dict[Key, str] = {}
        """What each shown wish is called towards the neighbour: one id may come from two sources for a while."""
        self._made = 0

    def add(self, source: str, wish: Wish) -> Change:
        key = (source, wish.id)
        cover = self._cover_of(wish)
        if cover is not None:
            self.hidden.setdefault(cover, {})[key] = wish
            self.behind[key] = cover
            return NOTHING
        return self._show(key, wish)

    def _cover_of(self, wish: Wish) -> Key | None:
        demand = demand_of(wish.filter, self.flat)
        for key, filter_, its in self.by_subject.covering(wish.subject):
            if may_cover(its, demand) and covers(filter_, wish.filter, self.space):
                return key
        return None

    def _covered_by(self, wish: Wish) -> list[Key]:
        demand = demand_of(wish.filter, self.flat)
        return [
            key
            for key, filter_, its in self.by_subject.covered(wish.subject)
            if may_cover(demand, its) and covers(wish.filter, filter_, self.space)
        ]

    def _show(self, key: Key, wish: Wish) -> Change:
        """Shows a wish and hides behind it whatever it covers, with all that was hidden there."""
        covered = self._covered_by(wish)
        mine = self.hidden.setdefault(key, {})
        for each in covered:
            mine[each] = self._unshow(each)
            mine.update(self.hidden.pop(each, {}))
        for each in mine:
            self.behind[each] = key
        self._put(key, wish)
        self._made += 1
        self.names[key] = f"c{self._made}"
        return Change((replace(wish, id=self.names[key]),), tuple(self.names.pop(each) for each in covered))

    def _put(self, key: Key, wish: Wish) -> None:
        self.shown[key] = wish
        self.by_subject.add(wish.subject, key, (key, wish.filter, demand_of(wish.filter, self.flat)))

    def _unshow(self, key: Key) -> Wish:
        wish = self.shown.pop(key)
        self.by_subject.remove(wish.subject, key)
        return wish

    def remove(self, source: str, wish_id: str) -> Change:
        key = (source, wish_id)
        cover = self.behind.pop(key, None)
        if cover is not None:
            del self.hidden[cover][key]
            return NOTHING
        gone = self._unshow(key)
        hidden = self.hidden.pop(key, {})
        heir = next((each for each, wish in hidden.items() if same(wish, gone)), None)
        if heir is not None:
            return self._inherit(key, heir, hidden)
        ask: list[Wish] = []
        withdraw = [self.names.pop(key)]
        for each, wish in hidden.items():
            del self.behind[each]
            change = self.add(each[0], wish)
            ask += change.ask
            withdraw += change.withdraw
        return without_the_vain(ask, withdraw)

    def _inherit(self, key: Key, heir: Key, hidden: dict[Key, Wish]) -> Change:
        """An equal wish stays in the place of one that goes: the neighbour hears nothing of it."""
        wish = hidden.pop(heir)
        del self.behind[heir]
        self._put(heir, wish)
        self.names[heir] = self.names.pop(key)
        self.hidden[heir] = hidden
        self.behind.update(dict.fromkeys(hidden, heir))
        return NOTHING

    def asked(self) -> list[Wish]:
        return [replace(wish, id=self.names[key]) for key, wish in self.shown.items()]


class AskMerged:
    """Merging routing: wishes of one subject are merged into few, each of which covers its parts.

    An exact merger is always taken; past `wishes_max` of one subject also an inexact one, which brings some events
    nobody wants as far as the next broker.
    """

    def __init__(self, space: Space, wishes_max: int) -> None:
        self.space = space
        self.wishes_max = wishes_max
        self.parts: dict[str, dict[Key, Wish]] = {}
        """By subject, what is wanted."""
        self.sent: dict[str, dict[str, Wish]] = {}
        """By subject, what is asked for."""
        self.subjects: dict[Key, str] = {}
        self._made = 0

    def add(self, source: str, wish: Wish) -> Change:
        self.subjects[source, wish.id] = wish.subject
        self.parts.setdefault(wish.subject, {})[(source, wish.id)] = wish
        sent = self.sent.setdefault(wish.subject, {})
        if any(wish_covers(each, wish, self.space) for each in sent.values()):
            return NOTHING
        return self._merged_into(sent, wish)

    def _merged_into(self, sent: dict[str, Wish], wish: Wish) -> Change:
        withdraw: list[str] = []
        merged = wish
        for name, each in list(sent.items()):
            result = merge(each.filter, merged.filter, self.space, cases_max=1)
            if result.exact or len(sent) >= self.wishes_max:
                merged = replace(merged, filter=result.filter)
                withdraw.append(name)
                del sent[name]
        self._made += 1
        merged = replace(merged, id=f"m{self._made}")
        sent[merged.id] = merged
        return Change((merged,), tuple(withdraw))

    def remove(self, source: str, wish_id: str) -> Change:
        subject = self.subjects.pop((source, wish_id))
        parts, sent = self.parts[subject], self.sent[subject]
        gone = parts.pop((source, wish_id))
        touched = [name for name, each in sent.items() if wish_covers(each, gone, self.space)]
        if any(wish_covers(each, gone, self.space) for each in parts.values()):
            # All together want what they wanted before, so whatever still stands for one of them stays.
            touched = [name for name in touched if not self._stands_for_any(sent[name], parts)]
        # Asked for anew is whatever only the touched ones covered.
        for name in touched:
            del sent[name]
        ask: list[Wish] = []
        withdraw = list(touched)
        for wish in parts.values():
            if not any(wish_covers(each, wish, self.space) for each in sent.values()):
                change = self._merged_into(sent, wish)
                ask += change.ask
                withdraw += change.withdraw
        if not parts:
            del self.parts[subject], self.sent[subject]
        return without_the_vain(ask, withdraw)

    def _stands_for_any(self, wide: Wish, parts: dict[Key, Wish]) -> bool:
        return any(wish_covers(wide, each, self.space) for each in parts.values())

    def asked(self) -> list[Wish]:
        return [wish for sent in self.sent.values() for wish in sent.values()]


def same(one: Wish, other: Wish) -> bool:
    return (one.subject, one.filter) == (other.subject, other.filter)


def without_the_vain(ask: list[Wish], withdraw: list[str]) -> Change:
    """Leaves out what would be asked for and withdrawn in the same breath."""
    both = {wish.id for wish in ask} & set(withdraw)
    return Change(
        tuple(wish for wish in ask if wish.id not in both), tuple(name for name in withdraw if name not in both)
    )


def asking_for(strategy: Strategy, space: Space, wishes_max: int) -> Asking:
    match strategy:
        case "flooding":
            return AskNothing()
        case "simple":
            return AskAll()
        case "identity":
            return AskEach()
        case "covering":
            return AskWidest(space)
        case "merging":
            return AskMerged(space, wishes_max)
