"""What the jobs of `movement.py` are told, and the tables they make.

A *visit* is a host at a place, without interruption, from `from_us` up to, not including, `until_us`. A *way* is a
row of visits that follow each other, `step` by step; it breaks where a host is gone, or comes back elsewhere.
"""

from dataclasses import dataclass

from roamcast.journal.schema import DOUBLE, FLAG, INTEGER, TEXT
from roamcast.spark.settings import Settings
from roamcast.spark.tables import Table, columns

CELL_M = 250.0
HOLD_OUT = 0.2
REST_US = 1_000_000


@dataclass(frozen=True)
class MovementSettings(Settings):
    cell_m: float = CELL_M
    """How wide and high a cell is; 0: places are what hosts call so, in their attribute `place`."""
    origin: tuple[float, float] = (0.0, 0.0)
    """The corner at which cell 0,0 begins."""
    rest_us: int = REST_US
    """Who stands at least so long during a visit rests there, and has ended a trip."""
    hold_out: float = HOLD_OUT
    """The share of the hosts that nothing is learned from, to see what the model is worth."""
    seed: int = 1
    """Which hosts these are."""


VISITS = Table(
    "visits",
    columns(
        host=TEXT,
        way=INTEGER,
        step=INTEGER,
        place=TEXT,
        from_us=INTEGER,
        until_us=INTEGER,
        rest_us=INTEGER,
        whole=FLAG,
        alone=FLAG,
    ),
    "who was at which place when, and stood, or was not seen before or after, for `rest_us`; "
    "`whole`: it was seen to come and to go; `alone`: neither",
    ("moves", "contexts"),
)
HELD_OUT = Table("held_out", columns(host=TEXT), "the hosts from which no movement is learned", ("visits",))
STAYS = Table(
    "stays",
    columns(
        place=TEXT,
        visits=INTEGER,
        whole=INTEGER,
        residence_us=DOUBLE,
        residence_p10_us=INTEGER,
        residence_p50_us=INTEGER,
        residence_p90_us=INTEGER,
    ),
    "how long one stays at each place, over whole visits, or over all where there is none",
    ("visits", "held_out"),
)
STEPS = Table(
    "steps",
    columns(place=TEXT, next=TEXT, times=INTEGER, rank=INTEGER),
    "which place follows which, and how often; rank 1 is the most frequent",
    ("visits", "held_out"),
)
TRIPS = Table(
    "trips",
    columns(place=TEXT, end=TEXT, times=INTEGER, rank=INTEGER),
    "where trips from each place end, and how often; rank 1 is the most frequent",
    ("visits", "held_out"),
)
SCORES = Table(
    "scores",
    columns(what=TEXT, ahead=DOUBLE, reach=INTEGER, asked=INTEGER, hits=INTEGER, named=INTEGER),
    "how the model does on hosts it has not seen: questions, right answers, and places named in all answers",
    ("visits", "held_out", "stays", "steps", "trips"),
)
