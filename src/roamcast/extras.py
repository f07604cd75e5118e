"""Extras of the package: `pip install roamcast` brings the client, extras bring brokers, nodes, simulator and Spark.

A part that needs an extra says so when it is imported or called, with the command that installs it.
"""

import re
import sys
from importlib.util import find_spec

NAME = re.compile(r"[\w.-]+")
IN_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")

EXTRA_OF_COMMAND = {
    "audit": "spark",
    "broker": "broker",
    "chaos": "sim",
    "demo": "all",
    "experiments": "all",
    "import": "import",
    "key": "node",
    "node": "node",
    "passwd": "broker",
    "pipeline": "spark",
    "routes": "sim",
    "sim": "sim",
    "what-if": "spark",
}


EXTRAS = ("broker", "import", "node", "postgres", "sim", "spark")


class MissingExtra(ImportError):
    """Packages that a part of roamcast needs are not installed; the message has the command that installs them."""


def needs(extra: str, *packages: str) -> None:
    """Raises `MissingExtra` unless all of `packages` can be imported."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"not installed: {', '.join(missing)}. {install(extra)}")


def missing_of(extra: str) -> list[str]:
    """The packages that this extra lists and that are not installed."""
    return [name for name in required(extra) if not installed(name)]


def required(extra: str = "") -> list[str]:
    """The packages that this extra lists, or those that every installation needs."""
    from importlib.metadata import requires  # takes long to load, and only errors and the doctor need it

    names = []
    for asked in requires("roamcast") or ():
        of, name = IN_EXTRA.search(asked), NAME.match(asked)
        if name and (of[1] if of else "") == extra:
            names.append(name[0])
    return names


def installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def install(extra: str) -> str:
    return f"Install what this part of roamcast needs: pip install 'roamcast[{extra}]'"


def advice(problem: ImportError, words: list[str]) -> str | None:
    """What to tell whoever gave `words` on the command line; None if no extra would help."""
    if isinstance(problem, MissingExtra):
        return str(problem)
    package = (problem.name or "").partition(".")[0]
    extra = next((EXTRA_OF_COMMAND[word] for word in words if word in EXTRA_OF_COMMAND), None)
    if extra is None or package in {"", "roamcast"} or package in sys.stdlib_module_names:
        return None
    return f"not installed: {package}. {install(extra)}"
