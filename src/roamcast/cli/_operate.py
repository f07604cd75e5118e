"""What the commands of an operator do: they ask the HTTP port of a running broker."""

import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import typer
from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from roamcast.config_errors import network_reason
from roamcast.printable import shown
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, console, stderr

ANSWER_S = 30.0
POINT_OF = {"geojson": '"coordinates":', "gpx": "<trkpt ", "csv": "Z,"}
"""What is in a track with a point, by format, and in no other."""


class Operator(Struct, frozen=True):
    """Who asks, and which broker."""

    http: str
    user: str = ""
    password: str = ""

    def ask(self, method: str, path: str, name: str = "", body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.read(method, path + quote(name, safe=""), body))
        return answer

    def read(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """The answer; leaves with a word and a code if there is none."""
        try:
            request = urllib.request.Request(
                self.http.rstrip("/") + path,
                None if body is None else json.dumps(body).encode(),
                {"authorization": self._authorization()} if self.user else {},
                method=method,
            )
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as refused:
            complain(f"{self.http}: {problem_of(refused)}")
            raise typer.Exit(EXIT_CHECK_FAILED) from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "reason", problem)
            why = network_reason(reason) if isinstance(reason, OSError) else str(reason)
            complain(f"{self.http}: {why}; `roamcast broker --http-port 8080 …` has an HTTP port")
            raise typer.Exit(EXIT_BAD_INPUT) from None

    def _authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def print_track(operator: Operator, client: str, query: Mapping[str, str]) -> None:
    track = operator.read("GET", f"/api/tracks/{quote(client, safe='')}?{urlencode(query)}").decode()
    sys.stdout.write(track)
    if POINT_OF[query["format"]] not in track:
        complain(f"{operator.http}: no position of '{shown(client)}' is kept of that time; see --from and --to")
        raise typer.Exit(EXIT_CHECK_FAILED)


def problem_of(refused: urllib.error.HTTPError) -> str:
    text = refused.read().decode(errors="replace")
    try:
        return shown(str(json.loads(text)["problem"]))
    except (ValueError, KeyError, TypeError):
        return shown(text.strip() or str(refused))


def complain(text: str) -> None:
    stderr.print(f"[red]{escape(text)}[/red]", soft_wrap=True)


def worded(answer: Mapping[str, Any]) -> str:
    if "done" in answer:
        return shown(str(answer["done"]))
    to = f", to {answer['to']}" if answer.get("to") else ""
    told = "1 client was" if answer["told"] == 1 else f"{answer['told']:,} clients were"
    stay = "1 session is" if answer["sessions"] == 1 else f"{answer['sessions']:,} sessions are"
    return shown(f"{told} told to go{to}; {stay} still here")


def show_status(operator: Operator, as_json: bool) -> None:
    found = operator.ask("GET", "/api/status")
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    table = Table(show_header=False, box=None)
    neighbours = found.pop("neighbours")
    for name, value in found.items():
        if value is not None:
            table.add_row(name.replace("_", " "), escape(shown(str(value))))
    for each in neighbours:
        state = "up" if each["up"] else "down"
        table.add_row(
            "neighbour", escape(shown(f"{each['name']}: {state}, {each['waiting_messages']} messages wait"))
        )
    console.print(table)
