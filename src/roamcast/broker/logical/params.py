"""Parameters of logical mobility: how far ahead of a client brokers look (R4, R5, R7)."""

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.filter.tree import STEPS_MAX
from roamcast.model.movement import MovementModel
from roamcast.model.values import BadValue


class Drift(Struct, frozen=True, forbid_unknown_fields=True):
    """How an attribute of a client may change: the continuous counterpart of a movement graph."""

    per_s: float = 0.0
    """By how much at most in a second; 0: filters are bound to its value as reported, and nothing ahead of it."""
    grid: float = 1.0
    """Changes within one cell of this width are not reported."""

    def __post_init__(self) -> None:
        if not 0 <= self.per_s < float("inf") or not 0 < self.grid < float("inf"):
            raise ValueError(f"drift of {self.per_s} a second on a grid of {self.grid}; give 0 or more, and above 0")


class AheadParams(Struct, frozen=True, forbid_unknown_fields=True):
    next_brokers: dict[str, tuple[str, ...]] = {}
    """By broker, those that its clients may come to next and that subscribe ahead for them."""
    movement: str = ""
    """The file of a movement model whose places are the names of brokers, in the place of `next_brokers`."""
    brokers_max: int = 3
    """Of those that the model knows after a broker, how many: where most went."""
    events_max: int = 200
    """How many events a broker keeps for a client that may come."""
    age_s_max: float = 600.0
    """How long it does so."""
    shadows_max: int = 10_000
    """For how many clients."""

    def __post_init__(self) -> None:
        for name in ("events_max", "age_s_max", "shadows_max", "brokers_max"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")
        if self.movement and self.next_brokers:
            raise ValueError("next_brokers and movement both say where clients go next; give one of them")

    def check_model(self, model: MovementModel) -> None:
        """Refuses a model whose places are not brokers."""
        if model.cell_m > 0:
            raise BadValue(f"{self.movement}: its places are cells, not brokers; learn it from the attribute `place`")

    def following(self, model: MovementModel) -> "AheadParams":
        """With the next brokers that the model has learned."""
        found = {
            name: tuple(sorted(habits.next, key=lambda each: (-habits.next[each], each))[: self.brokers_max])
            for name, habits in model.places.items()
            if habits.next
        }
        return replace(self, next_brokers=found, movement="")


class LogicalParams(Struct, frozen=True, forbid_unknown_fields=True):
    steps: int | None = None
    """How many steps ahead brokers look: 0 is plain sub/unsub, 64 every place; none: as delays and stays say."""
    steps_spare: int = 1
    """Steps beyond the paper's rule, which has 0 and may lose events of a fast client; one is enough for a client
    that never stays shorter than its residence time."""
    residence_s: float | None = None
    """How long a client stays at a place; none: measured from its moves."""
    stays_max: int = 8
    """Over how many of its last stays a client averages."""
    delays_max: int = 8
    """Over how many of the last echoes of a link its delay is averaged."""
    probe_period_s: float = 10.0
    """How often a broker that follows clients measures its links again."""
    away_steps: int = STEPS_MAX
    """How much further brokers look for a client that is away, which may walk meanwhile."""
    movement: str = ""
    """A movement model learned from traces: its graph in place of the scenario's, and its shortest residence time."""
    drifts: dict[str, Drift] = {}
    """By attribute of a client, how it may change; a filter over any other is left to the client."""

    def __post_init__(self) -> None:
        for name, steps in (
            ("steps", self.steps),
            ("steps_spare", self.steps_spare),
            ("away_steps", self.away_steps),
        ):
            if steps is not None and not 0 <= steps <= STEPS_MAX:
                raise ValueError(f"{name} is {steps}; give 0 to {STEPS_MAX}")
        for name, amount in (
            ("residence_s", self.residence_s),
            ("stays_max", self.stays_max),
            ("delays_max", self.delays_max),
            ("probe_period_s", self.probe_period_s),
        ):
            if amount is not None and not 0 < amount < float("inf"):
                raise ValueError(f"{name} is {amount}; give a number above 0")

    def following(self, model: MovementModel) -> "LogicalParams":
        """With what the model has learned of how long clients stay, unless that is given."""
        if self.residence_s is not None:
            return self
        return replace(self, residence_s=min(habits.residence_s for habits in model.places.values()))


PAPERS_RULE = LogicalParams(steps_spare=0)
"""The preset of the paper (section 5.3). A fast client may miss events, as section 6 says."""
