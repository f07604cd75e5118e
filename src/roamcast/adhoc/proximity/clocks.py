"""How old a message is, without trusting another host's clock.

A message carries its maker's stamp and its age: the time it is known to have spent at its maker and at forwarders.
The rest, the air and the queues, shows in the stamp only, mixed there with the difference of two clocks. But the
difference is constant and delays are not: the smallest lag that was seen of a host lately is nearly all difference,
and what a message lags more than that is delay. Clocks that differ by less than a short delay are taken to agree, as
those of GPS receivers do, and then ages are exact.

"Lately" is what lets a clock drift or be set back: the smallest lag is that of two generations of messages, the one
that is being filled and the one before it, so an old lag is forgotten after some seconds and a few numbers are all
that is kept of a host.
"""

GENERATION_US = 4_000_000
GENERATION_MESSAGES = 8
"""A generation lasts so long and has so many messages at least: neither silence nor a burst that waited in a queue
makes anybody forget."""

DELAY_US_MAX = 10_000_000
"""No message is on its way for longer without a forwarder's counting it: more is a clock that was set."""


class Lag:
    """The smallest lag of one host's messages, lately."""

    __slots__ = ("before_us", "least_us", "messages", "since_us")

    def __init__(self, now_us: int, lag_us: int) -> None:
        self.begin(now_us, lag_us, lag_us)

    def begin(self, now_us: int, lag_us: int, before_us: int) -> None:
        self.since_us = now_us
        self.messages = 1
        self.least_us = lag_us
        self.before_us = before_us
        """The smallest of the generation before."""

    def smallest_us(self, now_us: int, lag_us: int) -> int:
        """The smallest lag, now that a message with `lag_us` came."""
        least_us = self.least_us if self.least_us < self.before_us else self.before_us
        if lag_us - least_us > DELAY_US_MAX:
            self.begin(now_us, lag_us, lag_us)
            return lag_us
        if self.messages >= GENERATION_MESSAGES and now_us - self.since_us >= GENERATION_US:
            self.begin(now_us, lag_us, self.least_us)
            return min(lag_us, self.before_us)
        self.messages += 1
        if lag_us < self.least_us:
            self.least_us = lag_us
        return lag_us if lag_us < least_us else least_us


class Clocks:
    def __init__(self, agree_us: int, hosts_max: int) -> None:
        self.agree_us = agree_us
        self.hosts_max = hosts_max
        self.lags: dict[str, Lag] = {}

    def age_us(self, host: str, now_us: int, said_us: int, carried_us: int) -> int:
        """The age of what `host` stamped with `said_us` and was under way for `carried_us` at least."""
        if carried_us < 0:
            carried_us = 0
        lag_us = now_us - said_us - carried_us
        known = self.lags.get(host)
        if known is None:
            if len(self.lags) >= self.hosts_max:
                del self.lags[next(iter(self.lags))]
            known = self.lags[host] = Lag(now_us, lag_us)
        least_us = known.smallest_us(now_us, lag_us)
        delay_us = lag_us if 0 <= least_us <= self.agree_us else lag_us - least_us
        return carried_us + delay_us if delay_us > 0 else carried_us
