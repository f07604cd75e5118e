"""Follows a page as its reader would: writes the files it shows, types its commands, compares what they print.

What a page must look like: commands stand in blocks without a language, a file in a block of `toml` or `python` whose
first line is a comment with its name, and what is printed in a block of `text` after the commands that print it. A
broker runs until the page has another one, or ends; a subscription until it has what it wants.

Ports are others than on the page, so that brokers of other tests are not met.
"""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import FENCED
from tests.ports import free_ports
from tests.processes.fleet import COMMAND, environment

PATIENCE_S = 120.0
PORT = re.compile(r"\b(?:188[345]|788[345])\b")
SKIPPED = ("git ", "make ", "cd ", "mkdir ", ". ")
"""What everybody does once: the tests stand in an environment that is made already."""
LOCAL_PORT = "1883"


class Reader:
    """Whoever follows the page, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: dict[str, str] = {}
        self.brokers: list[subprocess.Popen[str]] = []
        self.waiting: list[subprocess.Popen[str]] = []
        self.printed: list[str] = []
        self.ran: list[str] = []
        self.audits: list[list[str]] = []

    def follow(self, page: str) -> None:
        try:
            for language, block in FENCED.findall(page):
                match language:
                    case "toml" | "python":
                        self.write(block)
                    case "text":
                        self.compare(block)
                    case "":
                        self.type(block)
                    case _:
                        raise AssertionError(f"a block of '{language}' has no meaning here")
            for reader in self.waiting:
                self.finish(reader)
            self.stop_brokers()
        finally:
            for process in (*self.brokers, *self.waiting):
                process.kill()
                process.communicate()

    def write(self, block: str) -> None:
        named = re.match(r"# ([\w./-]+)\n", block)
        assert named is not None, f"a file without a name: {block[:60]}"
        (self.folder / named[1]).write_text(self.with_ports(block), encoding="utf-8")

    def with_ports(self, text: str) -> str:
        for port in PORT.findall(text):
            if port not in self.ports:
                self.ports[port] = str(free_ports(1)[0])
        return PORT.sub(lambda found: self.ports[found[0]], text)

    def type(self, block: str) -> None:
        lines = block.splitlines()
        if self.brokers and any(line.startswith("roamcast broker ") for line in lines):
            self.stop_brokers()
        for line in lines:
            if not line.startswith(SKIPPED):
                self.run(line)

    def run(self, line: str) -> None:
        words = shlex.split(self.with_ports(line), comments=True)
        self.ran.append(line)
        match words:
            case ["roamcast", "audit", *_]:
                self.stop_brokers()
                self.audits.append(words[1:])
            case ["roamcast", "broker", *_]:
                self.brokers.append(self.start(*words))
                self.until(self.brokers[-1], "is ready")
            case ["roamcast", "sub", *_] if "--count" in words:
                self.waiting.append(self.start(*words, *self.local(words)))
                self.until(self.waiting[-1], "subscribed at")
            case ["roamcast", "sub" | "pub" | "fences", *_]:
                self.finish(self.start(*words, *self.local(words)))
            case ["roamcast", "doctor", *_]:
                # What it finds is another thing on each machine.
                self.finish(self.start(*words))
                self.printed.clear()
            case ["roamcast" | "python3", *_]:
                self.finish(self.start(*words))
            case ["mosquitto_pub" | "mosquitto_sub", *_]:
                if shutil.which(words[0]) is not None:
                    self.finish(self.start(*words, "-p", self.with_ports(LOCAL_PORT)))
            case _:
                raise AssertionError(f"nobody knows how to follow '{line}'")

    def local(self, words: list[str]) -> list[str]:
        return [] if "--broker" in words else ["--broker", f"mqtt://127.0.0.1:{self.with_ports(LOCAL_PORT)}"]

    def start(self, *words: str) -> subprocess.Popen[str]:
        program = {"roamcast": [*COMMAND], "python3": [sys.executable]}.get(words[0], [words[0]])
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*program, *words[1:]], cwd=self.folder, stdout=pipe, stderr=pipe, text=True, env=environment()
        )

    def until(self, process: subprocess.Popen[str], part: str) -> None:
        """A broker says on its output that it is ready, a subscriber beside it that it has subscribed."""
        stream = process.stderr if part.startswith("subscribed") else process.stdout
        assert stream is not None
        for line in stream:
            if part in line:
                return
        raise AssertionError(f"ended without '{part}': {process.communicate()}")

    def finish(self, process: subprocess.Popen[str]) -> None:
        out, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, f"{process.args!r}: {out}{errors}"
        self.printed += out.splitlines()

    def compare(self, block: str) -> None:
        for reader in self.waiting:
            self.finish(reader)
        self.waiting.clear()
        wanted = block.splitlines()
        if not (wanted[0].startswith("alerts/fire") and shutil.which("mosquitto_sub") is None):
            assert self.printed == wanted
        self.printed.clear()

    def stop_brokers(self) -> None:
        for broker in self.brokers:
            broker.send_signal(signal.SIGTERM)
        for broker in self.brokers:
            out, errors = broker.communicate(timeout=PATIENCE_S)
            assert broker.returncode == 0, out + errors
        self.brokers.clear()
