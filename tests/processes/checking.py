"""What clients got, held against what was acknowledged to publishers (L3, L8).

A payload is the publisher's name and a number: `p1 17`. Everything that a publisher said must have come, in its
order; at QoS 2 once, at QoS 1 perhaps again, after it had come in its turn.
"""

from collections.abc import Iterable, Mapping, Sequence


def complaints(
    reader: str, said: Mapping[str, Sequence[int]], got: Iterable[str], once: Iterable[str], swallowed: int = 0
) -> list[str]:
    """`said` has the numbers by publisher, `once` the publishers of whom nothing may come twice; of these so many are
    `swallowed` by the reader's own library."""
    came: dict[str, list[int]] = {publisher: [] for publisher in said}
    found: list[str] = []
    for payload in got:
        publisher, _, number = payload.partition(" ")
        if publisher not in came or not number.isdigit():
            found.append(f"{reader}: nobody said '{payload}'")
        else:
            came[publisher].append(int(number))
    exactly = set(once)
    for publisher, numbers in said.items():
        found += _about(f"{reader} of {publisher}", numbers, came[publisher], publisher in exactly, swallowed)
    return found


def _about(what: str, said: Sequence[int], came: list[int], once: bool, swallowed: int) -> list[str]:
    found = []
    first = list(dict.fromkeys(came))
    missing = sorted(set(said) - set(first))
    if len(missing) > (swallowed if once else 0):
        found.append(f"{what}: {len(missing)} are missing, {missing[:5]} first")
    unsaid = [each for each in first if each not in set(said)]
    if unsaid:
        found.append(f"{what}: {unsaid[:5]} were never said")
    known = set(first)
    if not unsaid and first != [each for each in said if each in known]:
        at = next(number for number, each in enumerate(first) if number and each < first[number - 1])
        found.append(f"{what}: out of order, {first[at]} after {first[at - 1]}")
    if once and len(first) != len(came):
        twice = sorted({each for each in came if came.count(each) > 1})
        found.append(f"{what}: {len(twice)} came twice, {twice[:5]} first")
    return found
