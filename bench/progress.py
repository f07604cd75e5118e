"""What a benchmark has so far, for who runs it: an interrupt or a failure does not throw it away.

A benchmark calls `note` after each of its cases, and `skipped` for what it cannot measure here; the runner begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class SoFar:
    figures: dict[str, float] = field(default_factory=dict)
    cases: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)

    def begin(self) -> None:
        self.figures, self.cases, self.skipped = {}, 0, []


SO_FAR = SoFar()
"""Of the benchmark that runs: there is one at a time."""


def note(figures: Mapping[str, float]) -> None:
    """The figures of one more case; or all that there are by now, those of earlier cases among them."""
    SO_FAR.figures |= figures
    SO_FAR.cases += 1


def skipped(peer: str, reason: str) -> None:
    """The reason says how to get it."""
    print(f"{peer} is skipped: {reason}", flush=True)
    SO_FAR.skipped.append({"peer": peer, "reason": reason})
