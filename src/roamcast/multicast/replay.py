"""Replay protection: a sliding window over the frame numbers of a session.

Frames overtake each other, so a number below the highest is not old yet. The window remembers the last
`WINDOW_FRAMES` numbers; what is below it is taken to have been seen.
"""

WINDOW_FRAMES = 1_024
WINDOW_MASK = 2**WINDOW_FRAMES - 1


class Window:
    __slots__ = ("highest", "seen")

    def __init__(self) -> None:
        self.highest = 0
        self.seen = 0
        """Bit `n` stands for the number `highest - n`."""

    def is_new(self, counter: int) -> bool:
        behind = self.highest - counter
        return behind < 0 or (behind < WINDOW_FRAMES and not self.seen >> behind & 1)

    def take(self, counter: int) -> bool:
        """Remembers it; False when it was seen before or may have been."""
        if not self.is_new(counter):
            return False
        self.mark(counter)
        return True

    def mark(self, counter: int) -> None:
        """Remembers one that is new."""
        ahead = counter - self.highest
        if ahead > 0:
            # A leap beyond the window leaves nothing of it, and must not be shifted bit by bit.
            self.seen = (self.seen << ahead) & WINDOW_MASK | 1 if ahead < WINDOW_FRAMES else 1
            self.highest = counter
        else:
            self.seen |= 1 << -ahead
