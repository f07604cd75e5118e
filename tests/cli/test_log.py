"""L6, L8: a broker's log lines go to standard error as it is, and one that is gone does no harm."""

import io
import sys

import pytest
import structlog

from roamcast.cli._broker import LogLines, configure_log


def test_l6_lines_go_to_what_standard_error_is_when_they_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    configure_log("info")
    try:
        log = structlog.get_logger().bind(broker="north")
        said = io.StringIO()
        monkeypatch.setattr(sys, "stderr", said)
        log.info("link up", peer="south")
        log.debug("not this")
        assert "link up" in said.getvalue()
        assert "north" in said.getvalue()
        assert "not this" not in said.getvalue()
    finally:
        structlog.reset_defaults()


class Broken(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_l8_a_terminal_that_is_gone_stops_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for gone in (closed, Broken()):
        monkeypatch.setattr(sys, "stderr", gone)
        LogLines().msg("nobody reads this")
