"""Checks of the amounts in a scenario, each with an error that names the key, what stands there and what is allowed.

TOML has `inf` and `nan`, so every check says what it accepts, and never only what it refuses.
"""

from roamcast.model.values import FOREVER_US

SECONDS_MAX = FOREVER_US // 1_000_000
"""The end of simulated time, 285 years on."""

PERIOD_MIN_S = 0.001


def check_seconds(key: str, seconds: float | None) -> None:
    if seconds is not None and not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{key} is {seconds}; give seconds from 0 to {SECONDS_MAX}")


def check_period(key: str, seconds: float | None) -> None:
    if seconds is not None and not PERIOD_MIN_S <= seconds <= SECONDS_MAX:
        raise ValueError(f"{key} is {seconds}; give a period of {PERIOD_MIN_S} s to {SECONDS_MAX} s")


def check_lifetimes(key: str, lifetimes_s: tuple[float, ...] | None) -> None:
    if lifetimes_s is None:
        return
    if not lifetimes_s:
        raise ValueError(f"{key} is empty; give at least one lifetime")
    for each in lifetimes_s:
        check_seconds(key, each)


def check_share(key: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"{key} is {share}; a share lies between 0 and 1")


def share_of(share: float, count: int) -> int:
    """How many of `count` a share comes to: rounded, and at least one of those there are if it is above 0."""
    return 0 if share == 0 else max(min(1, count), round(share * count))
