"""`roamcast bench`: the benchmarks of a checkout.

They are no part of an installed package, which is said where they are missing: what they measure depends on the
machine, and who measures wants to read and change them.
"""

import ast
import json as plain_json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.markup import escape
from rich.padding import Padding

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, console, stderr

FIGURES = Path("out/bench")
"""Where `python -m bench` leaves what each benchmark measured, below the checkout."""
TIDY_UP_S_MAX = 15.0
"""A benchmark that is interrupted ends its brokers, and writes what it has."""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names (default: all quick ones, about a minute).")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List all benchmarks with duration and requirements.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write all figures, or the list, to this file; `-` is the standard output.")
    ] = None,
) -> None:
    """Run benchmarks and print what they measure. The figures are kept in `out/bench` of the checkout.

    Some take seconds and others most of an hour, and some compare with programs that may not be installed: see
    `--list`. What was measured before an interrupt is kept.

    They need a clone of the repository: the folder `bench/` is not part of the installed package.

    Exit codes: 0 all ran, 1 one failed or could measure nothing here, 2 there is no such benchmark, or no
    checkout, 130 interrupted.
    """
    root = checkout()
    if root is None:
        refuse(
            "there is no folder bench/ here: benchmarks are in the repository, not in the installed package. "
            "Clone it, run `make install` there, and then `.venv/bin/roamcast bench`"
        )
    known, quick = benchmarks_of(root)
    found = {name: module_named(name, known) for name in names or ()}
    for name, module in found.items():
        if module is None:
            refuse(unknown(name, known))
    if list_:
        show_list(root, known, quick, json)
        return
    chosen = [module for module in found.values() if module] or quick
    began_s = time.time()
    code = run(root, chosen, quiet=json == Path("-"))
    if json is not None:
        write_figures(root, chosen, began_s, json)
    if code:
        raise typer.Exit(EXIT_INTERRUPTED if code == EXIT_INTERRUPTED else EXIT_CHECK_FAILED)


def module_named(name: str, known: list[str]) -> str | None:
    """A module cannot have the name of a Python statement, but a benchmark may be asked for by it."""
    return next((each for each in (name, f"{name}_") if each in known), None)


def unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? There" if near else "there"
    return f"no benchmark is called '{name}'; {hint} are {', '.join(known)}"


def checkout() -> Path | None:
    """The root of the repository that this package stands in, or else that one is in."""
    candidates = (Path(__file__).parents[3], Path.cwd())
    return next((each for each in candidates if (each / "bench" / "__main__.py").is_file()), None)


def benchmarks_of(root: Path) -> tuple[list[str], list[str]]:
    """All benchmarks, and the quick ones, as `bench/__main__.py` lists them; nothing of it is run."""
    found: dict[str, list[str]] = {}
    for statement in ast.parse((root / "bench" / "__main__.py").read_text(encoding="utf-8")).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Tuple):
            continue
        names: list[str] = []
        for element in statement.value.elts:
            match element:
                case ast.Constant(value=str(name)):
                    names.append(name)
                case ast.Starred(value=ast.Name(id=other)):
                    names += found.get(other, [])
                case _:
                    pass
        found |= {target.id: names for target in statement.targets if isinstance(target, ast.Name)}
    return found.get("BENCHMARKS", []), found.get("QUICK", [])


class Account(msgspec.Struct, frozen=True):
    """What a benchmark says of itself."""

    about: str
    takes: str = ""
    needs: dict[str, str] = {}
    """Programs, packages and, with a slash, files of the checkout; and how to get each."""


def account_of(root: Path, name: str) -> Account:
    """The first paragraph of a module, and what it says as TAKES and NEEDS; nothing of it is run."""
    module = ast.parse((root / "bench" / f"{name}.py").read_text(encoding="utf-8"))
    said = literals(module, "TAKES", "NEEDS")
    about = " ".join((ast.get_docstring(module) or "").partition("\n\n")[0].split())
    return Account(about, said.get("TAKES", ""), said.get("NEEDS", {}))


def literals(module: ast.Module, *names: str) -> dict[str, Any]:
    """Those of its constants, which must be written out."""
    return {
        target.id: ast.literal_eval(statement.value)
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in names
    }


def is_here(root: Path, needed: str) -> bool:
    if "/" in needed:
        return (root / needed).exists()
    java = f"{os.environ.get('JAVA_HOME', '')}/bin"
    if shutil.which(needed, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:{java}"):
        return True
    from importlib.metadata import distributions

    return any(distributions(name=needed))


def show_list(root: Path, known: list[str], quick: list[str], file: Path | None) -> None:
    accounts = {name: account_of(root, name) for name in known}
    if file is None:
        for name, each in accounts.items():
            how_long = f"{each.takes}, quick" if name in quick else each.takes
            console.print(f"[bold]{name.rstrip('_')}[/bold]  [dim]{escape(how_long)}[/dim]", highlight=False)
            needs = needs_in_words(root, each.needs)
            for line in (each.about, needs and f"compares with or needs {needs}"):
                if line:
                    console.print(Padding(escape(line), (0, 0, 0, 4)), highlight=False)
        return
    listed = [
        {
            "name": name,
            "quick": name in quick,
            "takes": each.takes,
            "needs": [{"name": what, "here": is_here(root, what), "get": how} for what, how in each.needs.items()],
            "about": each.about,
        }
        for name, each in accounts.items()
    ]
    write(plain_json.dumps(listed) + "\n", file)


def needs_in_words(root: Path, needs: dict[str, str]) -> str:
    here = ", ".join(what for what in needs if is_here(root, what))
    missing = ", ".join(f"{what} ({how})" for what, how in needs.items() if not is_here(root, what))
    return "; ".join(each for each in (here, missing and f"not here: {missing}") if each)


def run(root: Path, names: list[str], *, quiet: bool) -> int:
    """In a process of its own, as `make bench` does; what it prints goes where ours goes."""
    # A hang-up that `nohup` has ignored stays so.
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, signal.default_int_handler) for each in ends}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *names], cwd=root, stdout=sys.stderr if quiet else None
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        # In a terminal it was told as well; told alone we pass it on. It takes two in a row for one.
        process.send_signal(signal.SIGINT)
        with suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
            process.wait(TIDY_UP_S_MAX)
        return EXIT_INTERRUPTED
    finally:
        process.kill()
        process.wait()
        for each, handler in before.items():
            signal.signal(each, handler)


def write_figures(root: Path, names: list[str], began_s: float, file: Path) -> None:
    """Of those that ran now: of one that was interrupted what it had, and of those after it nothing."""
    files = {name: root / FIGURES / f"{name}.json" for name in names}
    told = {
        name: plain_json.loads(each.read_text(encoding="utf-8"))
        for name, each in files.items()
        if each.exists() and each.stat().st_mtime >= began_s
    }
    if told or file == Path("-"):
        write(plain_json.dumps(told, indent=2) + "\n", file)


def write(text: str, file: Path) -> None:
    if file == Path("-"):
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        refuse(f"{file}: cannot be written: {problem.strerror}")


def refuse(why: str) -> NoReturn:
    stderr.print(f"[red]{escape(why)}[/red]", soft_wrap=True)
    raise typer.Exit(EXIT_BAD_INPUT)
