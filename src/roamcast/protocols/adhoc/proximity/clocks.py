"""How old a message is, without trusting another host's clock.

A message carries its maker's stamp and its age: the time it is known to have spent at its maker and at forwarders.
The rest, the air and the queues, shows in the stamp only, mixed there with the difference of two clocks. But the
difference is constant and delays are not: the smallest lag that was seen of a host is nearly all difference, and what
a message lags more than that is delay. Clocks that differ by less than a short delay are taken to agree, as those of
GPS receivers do, and then ages are exact.
"""

DRIFT_US = 10
"""How much the smallest lag may grow with each message, since clocks run apart slowly."""

DELAY_US_MAX = 10_000_000
"""No message is on its way for longer without a forwarder's counting it: more is a clock that was set."""


class Clocks:
    def __init__(self, agree_us: int, hosts_max: int) -> None:
        self.agree_us = agree_us
        self.hosts_max = hosts_max
        self.lags_us: dict[str, int] = {}

    def age_us(self, host: str, now_us: int, said_us: int, carried_us: int) -> int:
        """The age of what `host` stamped with `said_us` and was under way for `carried_us` at least."""
        carried_us = max(0, carried_us)
        lag_us = now_us - said_us - carried_us
        known_us = self.lags_us.get(host)
        if known_us is None and len(self.lags_us) >= self.hosts_max:
            del self.lags_us[next(iter(self.lags_us))]
        is_set = known_us is not None and lag_us - known_us > DELAY_US_MAX
        least_us = lag_us if known_us is None or is_set else min(known_us + DRIFT_US, lag_us)
        self.lags_us[host] = least_us
        difference_us = 0 if 0 <= least_us <= self.agree_us else least_us
        return carried_us + max(0, lag_us - difference_us)
