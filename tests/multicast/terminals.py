"""`roamcast node` in a process of its own, as a person sees it: what it prints, and what is typed."""

import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

PATIENCE_S = 150.0
"""A busy machine takes its time to start a process."""


class Terminal:
    def __init__(self, home: Path, arguments: tuple[str, ...], before: tuple[str, ...] = (sys.executable,)) -> None:
        program = [*before, "-c", "from roamcast.cli.main import main; main()", "node", *arguments]
        environment = {**os.environ, "XDG_STATE_HOME": str(home), "COLUMNS": "200", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, part: str) -> str:
        """The first line from now on that contains this."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line is not None, f"ended without '{part}': {''.join(self.said)}"
            self.said.append(line)
            if part in line:
                return line

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
