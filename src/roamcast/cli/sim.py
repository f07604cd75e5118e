"""`roamcast sim`: runs a scenario."""

from pathlib import Path
from typing import Annotated

import typer


def sim(
    scenario: Annotated[Path, typer.Argument(help="A scenario file in TOML; see `scenarios/`.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same run, to the byte.")] = 1,
    journal: Annotated[Path | None, typer.Option(help="Write what happens into this directory, as Parquet.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a scenario in virtual time and show what was delivered, missed and spent.

    `expected` is what an ideal system would have delivered: one that knows where everybody is. It looks whenever
    something is published or subscribed, and ten times a second in between.

    Exit codes: 0 all checks of the scenario passed, 1 a check failed (the seed is printed), 2 the scenario or the
    journal's directory is wrong, 130 interrupted.
    """
    from roamcast.cli._sim import simulate

    simulate(scenario, seed, journal, json=json)
