"""`roamcast filter explain`: how a filter is understood, and whether it covers another one."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

from roamcast.terminal import EXIT_BAD_INPUT, console, stderr

filters = typer.Typer(help="Understand filters.", no_args_is_help=True)


@filters.command("explain")
def explain_filter(
    text: Annotated[str, typer.Argument(help='A filter in CQL2, e.g. "price < me.budget AND near(position, 200)".')],
    covers: Annotated[str | None, typer.Option(help="Another filter: does the first one cover it?")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show what a filter is made of: its tree, its normal form, what it reads, and what it covers.

    Exit codes: 0 shown, 2 the filter is wrong; the message names the place.
    """
    import msgspec

    from roamcast.cli._tables import filter_panel
    from roamcast.model.filter import BadFilter, parse_text
    from roamcast.model.filter.explanation import explain

    try:
        explained = explain(parse_text(text), None if covers is None else parse_text(covers))
    except BadFilter as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    if json:
        sys.stdout.write(msgspec.json.encode(explained).decode() + "\n")
    else:
        console.print(filter_panel(explained))
