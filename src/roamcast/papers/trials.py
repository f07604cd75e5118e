"""The one list of random trials that `roamcast chaos` runs at length: each is a name and what one seed of it does."""

from collections.abc import Callable

from msgspec.structs import replace

from roamcast.broker.logical.params import AheadParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.papers import chaos, chaos_announcing, chaos_logical, chaos_mesh, chaos_overlay

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")


def crashing(seed: int) -> chaos.TrialParams:
    """After each turn of the strategies one in which brokers crash."""
    return chaos.TrialParams(crashes=seed // len(STRATEGIES) % 2 == 1)


def brokers(seed: int) -> BrokerParams:
    """One strategy a seed, in turn; half of them replay in small pieces, so that other answers come in between."""
    pieces = 2 if seed // (2 * len(STRATEGIES)) % 2 == 1 else BrokerParams().replay_events_max
    return BrokerParams(routing=STRATEGIES[seed % len(STRATEGIES)], replay_events_max=pieces)


def roaming(seed: int) -> None:
    """Clients that go from broker to broker (R3)."""
    chaos.try_seed(seed, brokers(seed), crashing(seed))


def mesh(seed: int) -> None:
    """Predictive forwarding and its baselines, in turn."""
    params = replace(chaos_mesh.USUAL_MESH, crashes=seed // 6 % 2 == 1)
    chaos_mesh.try_mesh_seed(seed, chaos_mesh.KINDS[seed % len(chaos_mesh.KINDS)], params)


def walking(seed: int) -> None:
    """Clients that walk, at one broker each: as if by flooding (R4)."""
    trial = chaos_logical.WalkTrial(seed, brokers(seed), 0.7)
    trial.run()
    trial.check()
    trial.leave()


def logical(seed: int) -> None:
    """Clients that walk and roam (R4)."""
    chaos_logical.try_logical_seed(seed, brokers(seed), crashing(seed))


def advertised(seed: int) -> None:
    """The same with producers that announce, and no longer do (R1)."""
    trial = chaos_announcing.AnnouncingWalkers(seed, replace(brokers(seed), advertisements=True), crashing(seed))
    trial.run()
    trial.check()
    trial.leave()


def ahead(seed: int) -> None:
    """Roaming between brokers that subscribe ahead for every client of any other (R7)."""
    names = [f"B{index}" for index in range(chaos.USUAL.brokers)]
    others = {name: tuple(each for each in names if each != name) for name in names}
    chaos.try_seed(seed, replace(brokers(seed), ahead=AheadParams(next_brokers=others)), crashing(seed))


def overlay(seed: int) -> None:
    """Brokers, clients and modulators that all change their places."""
    chaos_overlay.try_overlay(seed, params=replace(chaos_overlay.USUAL, crashes=seed % 2 == 1))


TRIALS: dict[str, Callable[[int], None]] = {
    "roaming": roaming,
    "walking": walking,
    "logical": logical,
    "advertised": advertised,
    "ahead": ahead,
    "mesh": mesh,
    "overlay": overlay,
}


def outcome(name: str, seed: int) -> str | None:
    """What did not hold in this trial, if anything."""
    try:
        TRIALS[name](seed)
    except chaos.Failure as failure:
        return str(failure)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return None
