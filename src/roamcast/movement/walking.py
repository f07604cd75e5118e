"""Movement that is computed: a model of the simulator, or the waypoints of a BonnMotion file, as a source (L4).

Where the host is at a time is known to the microsecond, so it is asked whenever a fix is due; a fix has its speed and
heading. While the host is absent there is none.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from roamcast.model.space import Earth, Plane
from roamcast.movement.fix import BadSource, Clock, Fix, HostClock, heading_of
from roamcast.movement.legs import FOREVER_US, Leg, Track
from roamcast.movement.recorded import TRACE_BYTES_MAX, Playing, chosen, on_earth
from roamcast.movement.trace_formats import BadTrace
from roamcast.movement.traces import load_trace
from roamcast.sim.scenario import BadScenario, load_scenario

PERIOD_US = 1_000_000


class Walking:
    """The legs of one host, as a source; `legs` begins them anew."""

    def __init__(
        self,
        legs: Callable[[], Iterator[Leg]],
        playing: Playing | None = None,
        clock: Clock | None = None,
        period_us: int = PERIOD_US,
    ) -> None:
        self.playing = playing or Playing()
        self.space = Plane() if self.playing.origin is None else Earth()
        self._legs = legs
        self._clock = clock or HostClock()
        self._period_us = period_us

    async def fixes(self) -> AsyncIterator[Fix]:
        track = Track(self._legs())
        begin_us = round(self.playing.begin_s * 1e6)
        start_us = self._clock.now_us()
        while True:
            now_us = self._clock.now_us()
            walked_us = begin_us + round(max(0, now_us - start_us) * self.playing.speed)
            leg = track.leg_at(walked_us)
            if leg.present:
                yield self._fix(now_us, leg, walked_us)
            elif leg.end_us >= FOREVER_US:
                if not self.playing.loop:
                    return
                track, begin_us, start_us = Track(self._legs()), 0, now_us + self._period_us
            await self._clock.until(now_us + self._period_us)

    def _fix(self, now_us: int, leg: Leg, walked_us: int) -> Fix:
        origin, point = self.playing.origin, leg.position_at(walked_us)
        velocity = leg.velocity
        return Fix(
            now_us,
            (point.x, point.y) if origin is None else on_earth(origin, point),
            velocity.speed * self.playing.speed,
            None if leg.resting else heading_of(velocity.east, velocity.north),
        )


def waypoints(
    path: Path, host: str | None = None, playing: Playing | None = None, clock: Clock | None = None
) -> Walking:
    """A node of a BonnMotion file, which has waypoints rather than fixes: between them a node goes straight. Raises
    `BadSource`."""
    playing = playing or Playing()
    try:
        if path.stat().st_size > TRACE_BYTES_MAX:
            raise BadSource(f"{path}: a trace has at most {TRACE_BYTES_MAX} bytes")
        trace = load_trace(path, "bonnmotion", outside="absent" if playing.loop else "rest")
    except BadTrace as problem:
        raise BadSource(str(problem)) from problem
    except OSError as problem:
        raise BadSource(f"{path}: {problem.strerror or problem}") from problem
    return Walking(trace.hosts[chosen(path, host, list(trace.hosts))].legs, playing, clock)


def of_scenario(
    path: Path, host: str | None = None, seed: int = 1, playing: Playing | None = None, clock: Clock | None = None
) -> Walking:
    """A host of a scenario, moving as it does in a run with this seed. Raises `BadSource`."""
    try:
        scenario = load_scenario(path)
        places = {
            name: (group.mobility, index, len(group.hosts()))
            for group in scenario.hosts
            for index, name in enumerate(group.hosts())
        }
        name = chosen(path, host, list(places))
        mobility, index, count = places[name]
        return checked(lambda: mobility.legs(random.Random(f"{seed}/mobility/{name}"), index, count), playing, clock)
    except (BadScenario, BadTrace) as problem:
        raise BadSource(str(problem)) from problem


def checked(legs: Callable[[], Iterator[Leg]], playing: Playing | None, clock: Clock | None) -> Walking:
    """Some models find out with their first leg that a file is missing or wrong. Raises `BadSource`."""
    try:
        Track(legs())
    except (ValueError, OSError) as problem:
        raise BadSource(str(problem)) from problem
    return Walking(legs, playing, clock)
