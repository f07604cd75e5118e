"""`python -m bench [NAME ...]`: runs the named benchmarks, or all quick ones, and writes their figures to out/bench.

A benchmark is a module here with `main() -> dict[str, float]`: it prints what it measures as it goes and answers with
the figures. Timing lives here and in no test.
"""

import json
import platform
import sys
from importlib import import_module
from pathlib import Path

QUICK = ("datagram", "filters", "journal", "modulators", "raise_", "routing", "sim")
BENCHMARKS = (
    *QUICK,
    "broker_load",
    "broker_recovery",
    "broker_studio",
    "context",
    "fanout",
    "flood_watch",
    "match",
    "mobile",
    "oracle",
    "roam",
    "studio",
    "sweep",
)
"""`context` measures a whole protocol over many runs and takes the better part of an hour: only when it is named."""


def main() -> None:
    chosen = sys.argv[1:] or list(QUICK)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark is called '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    directory = Path("out/bench")
    directory.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        print(f"== {name}")
        figures = import_module(f"bench.{name}").main()
        conditions = {"python": platform.python_version(), "machine": platform.machine()}
        (directory / f"{name}.json").write_text(json.dumps({"conditions": conditions, "figures": figures}, indent=2))


if __name__ == "__main__":
    main()
