"""`roamcast bench`: the benchmarks of a checkout.

They are no part of an installed package, which is said where they are missing: what they measure depends on the
machine, and who measures wants to read and change them.
"""

import ast
import json as plain_json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape
from rich.table import Table

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, complaints, console

FIGURES = Path("out/bench")
"""Where `python -m bench` leaves what each benchmark measured, below the checkout."""
TIDY_UP_S_MAX = 15.0
"""A benchmark that is interrupted ends its brokers, and writes what it has."""


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; without a name all quick ones.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only say which there are.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write all figures into this file; `-` prints them.")] = None,
) -> None:
    """Run benchmarks and print what they measure. The figures are kept in `out/bench` of the checkout.

    They need a clone of the repository: the folder `bench/` is not part of the installed package.

    Exit codes: 0 all ran, 1 one failed, 2 there is no such benchmark, or no checkout, 130 interrupted.
    """
    root = checkout()
    if root is None:
        refuse(
            "there is no folder bench/ here: benchmarks are in the repository, not in the installed package. "
            "Clone it, run `make install` there, and then `.venv/bin/roamcast bench`"
        )
    known, quick = benchmarks_of(root)
    unknown = [name for name in names or () if name not in known]
    if unknown:
        refuse(f"no benchmark is called '{unknown[0]}'; there are {', '.join(known)}")
    if list_:
        show_list(root, known, quick, as_json=json is not None)
        return
    chosen = names or quick
    code = run(root, chosen, quiet=json == Path("-"))
    if code == 0 and json is not None:
        write_figures(root, chosen, json)
    if code:
        raise typer.Exit(EXIT_INTERRUPTED if code == EXIT_INTERRUPTED else EXIT_CHECK_FAILED)


def checkout() -> Path | None:
    """The root of the repository that this package stands in, or else that one is in."""
    candidates = (Path(__file__).parents[2], Path.cwd())
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


def show_list(root: Path, known: list[str], quick: list[str], *, as_json: bool) -> None:
    about = {name: purpose_of(root / "bench" / f"{name}.py") for name in known}
    if as_json:
        listed = [{"name": name, "quick": name in quick, "about": about[name]} for name in known]
        sys.stdout.write(plain_json.dumps(listed) + "\n")
        return
    table = Table("name", "quick", "measures", box=None, header_style="bold")
    for name in known:
        table.add_row(name, "yes" if name in quick else "", escape(about[name]))
    console.print(table)


def purpose_of(file: Path) -> str:
    """The first sentence of its own account."""
    account = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(account.partition("\n\n")[0].split())


def run(root: Path, names: list[str], *, quiet: bool) -> int:
    """In a process of its own, as `make bench` does; what it prints goes where ours goes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
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
        signal.signal(signal.SIGTERM, before)


def write_figures(root: Path, names: list[str], file: Path) -> None:
    told = {name: plain_json.loads((root / FIGURES / f"{name}.json").read_text(encoding="utf-8")) for name in names}
    text = plain_json.dumps(told, indent=2) + "\n"
    if file == Path("-"):
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        refuse(f"{file}: cannot be written: {problem.strerror}")


def refuse(why: str) -> NoReturn:
    complaints.print(f"[red]{escape(why)}[/red]", soft_wrap=True)
    raise typer.Exit(EXIT_BAD_INPUT)
