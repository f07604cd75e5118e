"""Proximity groups: the textual description of a subject and its proximity, and the 24-bit id hashed from it (S7).

Nobody hands out group ids. Whoever knows an announcement describes it in the same words (STEAM, figure 5: subject,
shape with its dimensions, reference point, naval) and hashes them, so producers and consumers arrive at the same
group with what they know locally (section 4.4). The naval in the description is the initial one: a mobile proximity
keeps its group wherever it goes.

The hash is Preiss's for strings, a rotation and an exclusive-or for each byte, followed by Knuth's multiplication.
Ids may collide. That costs frames, never a wrong delivery: the receiver checks types (`discovery.py`).
"""

from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, Shape
from roamcast.model.values import Point

GROUP_BITS = 24
DISCOVERY_GROUP = 1
"""The well-known group of announcements; hashed ids lie above it."""

WORD_BITS = 32
WORD_MASK = 0xFFFF_FFFF
ROTATION_BITS = 7
MULTIPLIER = 2_654_435_769
"""2^32 divided by the golden ratio: neighbouring keys come out far apart."""


def group_of(subject: str, proximity: Region, initial_naval: Point) -> int:
    return group_id(description_of(subject, proximity, initial_naval))


def description_of(subject: str, proximity: Region, initial_naval: Point) -> str:
    """In words: `traffic light; mobile; circle 40.0 at 0.0,0.0; reference 0.0,0.0; naval 310.0,20.5`."""
    naval = f"naval {numbers_of(initial_naval)}"
    if isinstance(proximity, Anchored):
        reference = f"reference {numbers_of(proximity.reference)}"
        return f"{subject}; mobile; {shape_words(proximity.shape)}; {reference}; {naval}"
    return f"{subject}; stationary; {shape_words(proximity)}; {naval}"


def shape_words(shape: Shape) -> str:
    match shape:
        case Circle(centre, radius_m):
            return f"circle {float(radius_m)!r} at {numbers_of(centre)}"
        case Box(low, high):
            return f"rectangle {numbers_of(low)} to {numbers_of(high)}"
        case Polygon(corners):
            return "polygon " + " ".join(numbers_of(corner) for corner in corners)


def numbers_of(point: Point) -> str:
    return f"{float(point.x)!r},{float(point.y)!r}"


def group_id(description: str) -> int:
    word = 0
    for byte in description.encode():
        word = ((word << ROTATION_BITS) & WORD_MASK) ^ (word >> (WORD_BITS - ROTATION_BITS)) ^ byte
    hashed = ((word * MULTIPLIER) & WORD_MASK) >> (WORD_BITS - GROUP_BITS)
    return max(hashed, DISCOVERY_GROUP + 1)
