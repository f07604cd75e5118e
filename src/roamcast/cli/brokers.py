"""Commands about brokers: what they route, and how they stand up to random trials."""

from pathlib import Path
from typing import Annotated

import typer

TRIALS = "roaming, walking, logical, advertised, ahead, mesh, overlay"
"""The names in `papers/trials.py`, so that telling them needs no loading."""


def routes(
    scenario: Annotated[Path, typer.Argument(help="A scenario with brokers, e.g. `scenarios/roaming.toml`.")],
    at: Annotated[float | None, typer.Option(help="The simulated time in seconds (default: the end).")] = None,
    broker: Annotated[str | None, typer.Option(help="Only this broker.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Run a scenario up to a moment and show the routing tables of its brokers then.

    For each neighbour: what it wants (its wishes), and what it is asked for. For each client: whether it is attached,
    how many events wait for it, and what it wants. For a broker of an overlay: the rows of its topology table, its
    paths, its clients, and the modulators that run there.

    Exit codes: 0 shown, 2 the scenario is not valid, has no such broker, or ends before --at, 130 interrupted.
    """
    from roamcast.cli._brokers import show_routes

    show_routes(scenario, at, broker, seed, json=json)


def chaos(
    trial: Annotated[str, typer.Argument(help=f"Which trials: {TRIALS}.")] = "roaming",
    seeds: Annotated[int, typer.Option(min=1, help="How many.")] = 1_000,
    first: Annotated[
        int, typer.Option(min=0, help="The first seed; give the seed of a failure to see it again.")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Trials in parallel; 0: one for each core.")] = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON, with a reason for each seed that failed.")
    ] = False,
) -> None:
    """Try random worlds and say which seeds fail, and why.

    Every trial is a random network of brokers with clients that move, vanish, return and change their subscriptions
    at the worst moments. What must hold: every event arrives, once, in the order of its publisher, and nothing stays
    behind when all have left. In about half of the seeds brokers crash as well; then only what a crashed broker had
    may be missing, and whoever lost it must have been told.

    Exit codes: 0 all held, 1 some seeds failed (they are printed), 2 there are no such trials, 130 interrupted.
    """
    from roamcast.cli._brokers import try_worlds

    try_worlds(trial, seeds, first, jobs, json=json)
