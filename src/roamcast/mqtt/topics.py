"""Topic names, topic filters, and the two prefixes that stand before a filter.

A filter may use `+` for one level and, at its end, `#` for any number of levels; neither matches a first level that
begins with `$`. Before a filter may stand `$share/<group>/` (one of the group's members gets each message) and
`$roam/<name>/` (a second subscription of the same session on the same filter, told apart by its name), in this order
when there are both. Some names are none: they begin topics of the broker's own, such as `$roam/fence/#`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from msgspec import Struct

from roamcast.mqtt.reasons import BadPacket, MalformedPacket, Reason

SHARE = "$share"
ROAM = "$roam"
OWN_LEVELS = ("admin", "fence", "fences", "position")
"""What follows `$roam` in topics that can be subscribed to, or that rules name, and is no name."""
ENCODED = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%/+#"})
LEVELS_MAX = 16
LEVEL_COUNT = -1
GONE_MAX = 64
"""So many more topics that are gone may be listed than there are."""


class BadTopicFilter(BadPacket):
    """A filter whose prefix is wrong: it can be read, but nobody can be subscribed to it."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.TOPIC_FILTER_INVALID, detail)


class TopicFilter(Struct, frozen=True, gc=False):
    """`text` is what the client said, `pattern` the part that topics are compared with."""

    text: str
    pattern: str
    group: str | None = None
    name: str | None = None

    def matches(self, topic: str) -> bool:
        return matches(self.pattern, topic)


def check_topic_name(topic: str) -> None:
    """Text rules (UTF-8, no U+0000, length) are checked where the text is read."""
    if not topic:
        raise MalformedPacket("a topic name is empty")
    if "+" in topic or "#" in topic:
        raise MalformedPacket("a topic name contains a wildcard")


def check_topic_filter(pattern: str) -> None:
    if not pattern:
        raise MalformedPacket("a topic filter is empty")
    if "+" not in pattern and "#" not in pattern:
        return
    levels = pattern.split("/")
    for level in levels:
        if len(level) > 1 and ("+" in level or "#" in level):
            raise MalformedPacket("a wildcard in a topic filter must be a level of its own")
    if "#" in levels[:-1]:
        raise MalformedPacket("'#' stands for the rest of a topic and must come last in a filter")


def parse_filter(text: str) -> TopicFilter:
    check_topic_filter(text)
    pattern = text
    group, name = None, None
    if pattern == SHARE or pattern.startswith(SHARE + "/"):
        group, pattern = _after_prefix(pattern, SHARE)
    if (pattern == ROAM or pattern.startswith(ROAM + "/")) and not is_own(pattern):
        name, pattern = _after_prefix(pattern, ROAM)
    if name is not None and pattern.split("/", 1)[0] in (SHARE, ROAM) and not is_own(pattern):
        raise BadTopicFilter(f"after {ROAM}/<name>/ comes a plain topic filter")
    if group is not None and pattern.split("/", 1)[0] == SHARE:
        raise BadTopicFilter(f"{SHARE} stands once in a filter")
    return TopicFilter(text, pattern, group, name)


def is_own(pattern: str) -> bool:
    """Whether a filter that begins with `$roam` is a plain one, for topics of the broker's own."""
    levels = pattern.split("/", 2)
    return len(levels) > 1 and levels[0] == ROAM and levels[1] in OWN_LEVELS


def position_topic(client: str) -> str:
    """Where the positions of a client are published: signs that mean something in topics are percent-encoded."""
    return f"{ROAM}/position/{client.translate(ENCODED)}"


def client_of_position(topic: str) -> str:
    return unquote(topic.removeprefix(f"{ROAM}/position/"))


def _after_prefix(text: str, prefix: str) -> tuple[str, str]:
    _, _, rest = text.partition("/")
    word, slash, pattern = rest.partition("/")
    if not word or not slash or not pattern or "+" in word or "#" in word:
        raise BadTopicFilter(f"expected {prefix}/<name without wildcards>/<topic filter>")
    check_topic_filter(pattern)
    return word, pattern


def matches(pattern: str, topic: str) -> bool:
    if pattern == topic:
        return True
    if topic[0] == "$" and pattern[0] in "+#":
        return False
    wanted = pattern.split("/")
    levels = topic.split("/")
    if wanted[-1] == "#":
        # The parent belongs to it too: `a/#` matches `a`.
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(want in ("+", level) for want, level in zip(wanted, levels, strict=False))


class TopicIndex:
    """Topics in the order in which they were added, found by pattern. Each is listed under what stands at each of its
    levels, and under how many it has; a pattern is compared with the shortest list that it names, which it names
    however many wildcards come first.

    Only the first levels are listed, or a topic of very many would take a hundred times its length. Topics have
    numbers that grow, so that a search can go on where it stopped, whatever was added and removed meanwhile.
    """

    def __init__(self, topics: Iterable[str] = (), numbers: Mapping[str, int] | None = None) -> None:
        """`numbers` are those that the topics have already."""
        self.numbers: dict[str, int] = {}
        self.last = 0
        """The number of the topic that was added last."""
        self._topics: dict[int, str] = {}
        self._all = array("q")
        self._lists: dict[tuple[int, str], array[int]] = {}
        """Arrays of numbers, for nobody but the garbage collector would look at lists again and again."""
        self._live: dict[tuple[int, str], int] = {}
        """How many of each list are still there."""
        for topic in topics:
            self.last = self.last + 1 if numbers is None else numbers[topic]
            self._enter(topic)

    def add(self, topic: str) -> None:
        if topic not in self.numbers:
            self.last += 1
            self._enter(topic)

    def _enter(self, topic: str) -> None:
        number = self.numbers[topic] = self.last
        self._topics[number] = topic
        self._all.append(number)
        for place in places_of(topic):
            if place not in self._lists:
                self._lists[place] = array("q")
            self._lists[place].append(number)
            self._live[place] = self._live.get(place, 0) + 1

    def remove(self, topic: str) -> None:
        """One that is there."""
        del self._topics[self.numbers.pop(topic)]
        self._all = self._tidied(self._all, len(self.numbers))
        for place in places_of(topic):
            self._live[place] -= 1
            if self._live[place]:
                self._lists[place] = self._tidied(self._lists[place], self._live[place])
            else:
                del self._lists[place], self._live[place]

    def _tidied(self, numbers: "array[int]", live: int) -> "array[int]":
        if len(numbers) <= 2 * live + GONE_MAX:
            return numbers
        return array("q", [each for each in numbers if each in self._topics])

    def match(self, pattern: str) -> list[str]:
        return self.look(pattern, 0, self.last, len(self.numbers) + 1)[0]

    def look(self, pattern: str, after: int, upto: int, topics_max: int) -> tuple[list[str], int, int]:
        """Those with numbers in a range that match, of so many that are compared at most; up to which number there
        are no others, which is `upto` in the end; and how many more might have been compared."""
        places = places_of(pattern)
        if not all(place in self._lists for place in places):
            return [], upto, topics_max
        shortest = self._lists[min(places, key=lambda each: self._live[each])] if places else self._all
        found: list[str] = []
        for at in range(bisect_right(shortest, after), len(shortest)):
            number = shortest[at]
            if number > upto:
                break
            topic = self._topics.get(number)
            if topic is None:
                continue
            if not topics_max:
                return found, number - 1, 0
            topics_max -= 1
            if matches(pattern, topic):
                found.append(topic)
        return found, upto, topics_max


def places_of(pattern: str) -> list[tuple[int, str]]:
    """Under which lists every topic stands that the pattern matches."""
    places = [(place, level) for place, level in enumerate(pattern.split("/", LEVELS_MAX)[:LEVELS_MAX])]
    if not pattern.endswith("#"):
        places.append((LEVEL_COUNT, str(pattern.count("/"))))
    return [place for place in places if place[1] not in ("+", "#")]
