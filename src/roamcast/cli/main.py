"""The command line: which commands there are, and where each is defined.

A file is loaded when its command is called, so that every command starts quickly. Help loads all of them.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from roamcast import __version__
from roamcast.cli.panels import Map
from roamcast.terminal import EXIT_BAD_INPUT, console, stderr

COMMANDS = {
    "filter": "filters:filters",
    "pipeline": "pipeline:pipeline",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "bench": "bench:bench",
    "audit": "pipeline:audit",
    "what-if": "pipeline:what_if",
    "import": "imports:import_",
    "broker": "broker:brokers",
    "passwd": "broker:passwd",
    "pub": "pubsub:pub",
    "sub": "pubsub:sub",
    "track": "operate:track",
    "fences": "fences:fences",
    "node": "node:node",
    "key": "node:key",
    "experiments": "experiments:experiments",
    "sim": "sim:sim",
    "routes": "brokers:routes",
    "chaos": "brokers:chaos",
}
"""A function for a command, or a `Typer` for a group of them, as `FILE:NAME`."""


def root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        console.print(__version__)
        raise typer.Exit


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """`roamcast` with the given commands."""
    app = typer.Typer(
        name="roamcast",
        cls=Map,
        help="Publish/subscribe for things that move.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(root)
    for name in names:
        file, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"roamcast.cli.{file}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


if TYPE_CHECKING:
    app: typer.Typer


def __getattr__(name: str) -> object:
    """`app` has all commands; it is made when asked for, since loading all files takes a while."""
    if name == "app":
        return application()
    raise AttributeError(f"module 'roamcast.cli.main' has no attribute '{name}'")


def main() -> None:
    asked = [each for each in sys.argv[1:2] if each in COMMANDS]
    try:
        application(asked or COMMANDS)()
    except ImportError as problem:
        from rich.markup import escape

        from roamcast.extras import advice

        said = advice(problem, asked)
        if said is None:
            raise
        stderr.print(f"[red]{escape(said)}[/red]", soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
