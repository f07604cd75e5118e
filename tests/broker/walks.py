"""The example of Rebeca, section 5, by the name that tests know it by."""

from roamcast.papers.example import PLACES, Example, Spoken

__all__ = ["PLACES", "Example", "Spoken"]
