"""L6: what `roamcast pub` and `roamcast sub` say of mistakes; that they work is in `tests/processes`."""

import pytest
from typer.testing import CliRunner

from roamcast.cli._pubsub import content_of
from roamcast.cli.main import app

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sub", "t", "--filter", "severity >"), "--filter: at the end"),
        (("sub", "t", "--near", "5"), "--near needs your position: give --at or --location"),
        (("sub", "t", "--near", "-5", "--at", "1,2"), "--near is -5; give metres above 0"),
        (("sub", "t", "--at", "here"), "--at is 'here'; give two numbers"),
        (("sub", "t", "--broker", "http://x"), "'http://x' is not a broker's address"),
        (("sub", "a/#/b"), "# must be the last level"),
        (("pub", "a/+", "x"), "wildcards + and # belong in subscriptions"),
        (("sub", "t", "--location", "trace:missing.csv"), "missing.csv: No such file or directory"),
        (("pub", "t", "x", "--broker", "mqtt://127.0.0.1:1"), "mqtt://127.0.0.1:1: Connection refused"),
        (("pub", "t", "x", "--within", "5"), "--within needs --at"),
        (("pub", "t", "x", "--broker", "mqtt://127.0.0.1:1"), "Is a broker there?"),
    ],
)
def test_l6_what_cannot_be_is_said_in_a_line_and_leaves_with_2(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("text", "warned"), [('{"n": 1', True), ('{"n": 1}', False), ("hello", False), ("[1, 2", False)]
)
def test_l6_content_that_was_meant_as_json_and_is_none_is_warned_of(
    text: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    content_of(text)
    assert ("is not JSON" in capsys.readouterr().err) is warned
