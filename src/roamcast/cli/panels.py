"""The map of the product that `roamcast --help` shows: every command in its panel, in order, with its purpose.

A command is registered in `cli/main.py` and gets its place here by its name, so that this file alone says what a
newcomer sees first. One that is not on the map comes last, and a test fails.
"""

from typing import Any

from typer.core import TyperGroup

MAP: dict[str, dict[str, str]] = {
    "Try it": {
        "demo": "A town on a live map: brokers, and clients that roam.",
        "doctor": "Look whether this machine has what roamcast needs.",
    },
    "Live": {
        "broker": "Serve MQTT clients: filters, places, sessions that roam.",
        "pub": "Publish an event to a broker.",
        "sub": "Subscribe with a filter and a place, and print what comes.",
        "track": "Print where a client was, as GeoJSON, GPX or CSV.",
        "fences": "Say what is to be told of when clients enter or leave it.",
        "node": "Be an ad hoc node on this network, without any broker.",
        "passwd": "Set the password of a broker's user.",
        "key": "Make the key of a group of ad hoc nodes.",
    },
    "Simulate": {
        "sim": "Run a scenario in virtual time; what was delivered, missed?",
        "chaos": "Try random worlds, and say which seeds fail.",
    },
    "Measure": {
        "audit": "Compare what was delivered with what an ideal system would.",
        "what-if": "Replay a journal with other wishes, and show the difference.",
        "experiments": "Measure again what the papers published.",
        "bench": "Run the benchmarks of a clone of the repository.",
    },
    "Data": {
        "import": "Take your own positions from files or MQTT into a journal.",
        "pipeline": "Work on journals with Spark, step by step.",
    },
    "Look inside": {
        "routes": "Show what the brokers of a scenario route at a moment.",
        "filter": "Explain a filter: what it means, reads and covers.",
    },
}
PANELS = {name: panel for panel, commands in MAP.items() for name in commands}
PURPOSES = {name: purpose for commands in MAP.values() for name, purpose in commands.items()}


class Map(TyperGroup):
    """A group of commands whose help is the map."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, command in self.commands.items():
            if name in PANELS:
                command.short_help = PURPOSES[name]
                command.rich_help_panel = PANELS[name]  # type: ignore[attr-defined]

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in PANELS if name in self.commands] + [
            name for name in self.commands if name not in PANELS
        ]
