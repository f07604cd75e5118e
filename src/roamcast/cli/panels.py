"""The map of the product that `roamcast --help` shows: every command in its panel, in order, with its purpose.

A command is registered in `cli/main.py` and gets its place here by its name, so that this file alone says what a
newcomer sees first. One that is not on the map comes last, and a test fails.
"""

from typing import Any

from typer.core import TyperGroup

MAP: dict[str, dict[str, str]] = {
    "Try it": {
        "demo": "A town on a live map: brokers, and clients that roam.",
        "doctor": "Check that this machine has what roamcast needs.",
    },
    "Live": {
        "broker": "Serve MQTT clients: filters, places, sessions that roam.",
        "pub": "Publish an event to a broker.",
        "sub": "Subscribe with a filter and a place, and print what comes.",
        "track": "Print where a client was, as GeoJSON, GPX or CSV.",
        "fences": "Define fences: regions whose entries and exits are events.",
        "node": "Run an ad hoc node on this network, without a broker.",
        "passwd": "Set the password of a broker's user.",
        "key": "Make the key of a group of ad hoc nodes.",
    },
    "Simulate": {
        "sim": "Run a scenario in virtual time; show delivered and missed.",
        "chaos": "Run random trials, and print the seeds that fail.",
    },
    "Measure": {
        "audit": "Compare deliveries with those of an ideal system.",
        "what-if": "Judge a journal with other subscriptions; show what differs.",
        "experiments": "Repeat the papers' experiments.",
        "bench": "Run the benchmarks of a clone of the repository.",
    },
    "Data": {
        "import": "Import positions from files or MQTT into a journal.",
        "pipeline": "Process journals on Spark, step by step.",
    },
    "Look inside": {
        "routes": "Show the routing tables of a scenario's brokers.",
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
