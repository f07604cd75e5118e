"""`python -m bench [NAME ...]`: runs the named benchmarks, or all quick ones, and writes their figures to out/bench.

A benchmark is a module here with `main() -> dict[str, float]`: it prints what it measures as it goes, tells
`bench.progress` of it, and answers with the figures. It says how long it TAKES, and as NEEDS the programs and
packages that it compares with or cannot do without, and how to get them. Quick is what takes less than half a minute.
Timing lives here and in no test.
"""

import argparse
import json
import math
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from bench import interrupts
from bench.conditions import conditions, load, versions
from bench.progress import SO_FAR
from roamcast.cli.bench import account_of, module_named, unknown

INTERRUPTED = 130
DIRECTORY = Path("out/bench")
QUICK = ("datagram", "filters", "journal", "modulators", "raise_")
BENCHMARKS = (
    *QUICK,
    "audit",
    "broker_load",
    "broker_recovery",
    "broker_studio",
    "bursts",
    "context",
    "fanout",
    "fence_delay",
    "fence_judgements",
    "fence_noise",
    "fences",
    "flood_watch",
    "import_",
    "live_audit",
    "match",
    "mobile",
    "oracle",
    "product",
    "roam",
    "routing",
    "sim",
    "start",
    "studio",
    "sweep",
)


def main() -> None:
    interrupts.take()
    chosen = asked()
    if isinstance(sys.stdout, TextIOWrapper):
        # Who reads it through a pipe wants to see how far it is.
        sys.stdout.reconfigure(line_buffering=True)
    try:
        ran = [run(name) for name in chosen]
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if all(ran) else 1)


def asked() -> list[str]:
    root, known = Path(__file__).parents[1], list(BENCHMARKS)
    takes = [f"  {name.rstrip('_'):<18}{account_of(root, name).takes}" for name in known]
    options = argparse.ArgumentParser(
        prog="python -m bench",
        description="Runs benchmarks, and writes their figures to out/bench.",
        epilog="\n".join(("they take about:", *takes, "`roamcast bench --list` says what they measure and need.")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "names", nargs="*", metavar="NAME", help=f"without one: {', '.join(each.rstrip('_') for each in QUICK)}"
    )
    names = options.parse_args().names
    for name in names:
        if module_named(name, known) is None:
            options.error(unknown(name, known))
    return [each for each in (module_named(name, known) for name in names) if each] or list(QUICK)


def run(name: str) -> bool:
    """Whether there was something that it could measure."""
    print(f"== {name}")
    SO_FAR.begin()
    before, peers, file = conditions(), versions(), DIRECTORY / f"{name}.json"
    print(", ".join(f"{what} {value}" for what, value in before.items()))
    try:
        SO_FAR.figures |= import_module(f"bench.{name}").main()
    except BaseException as problem:
        if SO_FAR.figures:
            write(file, before, peers, complete=False)
        if isinstance(problem, KeyboardInterrupt):
            print(f"interrupted; {kept(file)}")
        raise
    write(file, before, peers, complete=bool(SO_FAR.figures))
    print(closing(name, file))
    return bool(SO_FAR.figures)


def kept(file: Path) -> str:
    if not SO_FAR.figures:
        return "nothing was measured"
    return f"1 case is in {file}" if SO_FAR.cases == 1 else f"{SO_FAR.cases} cases are in {file}"


def closing(name: str, file: Path) -> str:
    lacking = ", ".join(each["peer"] for each in SO_FAR.skipped)
    if not SO_FAR.figures:
        return f"{name} measured nothing: {lacking} is skipped" if lacking else f"{name} measured nothing"
    return f"{name}: {len(SO_FAR.figures)} figures are in {file}" + (f"; without {lacking}" if lacking else "")


def write(file: Path, before: dict[str, str], peers: dict[str, str], *, complete: bool) -> None:
    told = {
        "conditions": {**before, "load_after": load(), "versions": peers},
        "complete": complete,
        "skipped": SO_FAR.skipped,
        "figures": {name: finite(value) for name, value in SO_FAR.figures.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told, indent=2, allow_nan=False), encoding="utf-8")


def finite(value: float) -> float | None:
    """NaN is not JSON."""
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    main()
