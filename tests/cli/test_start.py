"""L6: commands and the package load only what they need, so that they start quickly."""

import json
import subprocess
import sys

import pytest

from roamcast.cli.main import COMMANDS
from roamcast.cli.panels import MAP


def loaded_by(program: str) -> set[str]:
    """The modules that are loaded after this program has run."""
    script = f"import json, sys\n{program}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return set(found)


def test_l6_import_roamcast_loads_nothing_else() -> None:
    loaded = loaded_by("import roamcast")
    assert {name for name in loaded if name.startswith("roamcast")} == {"roamcast", "roamcast.on_demand"}
    assert "msgspec" not in loaded


def test_l6_public_names_are_loaded_on_first_use() -> None:
    loaded = loaded_by("import roamcast; [getattr(roamcast, name) for name in roamcast.__all__]")
    assert {"roamcast.client.client", "roamcast.node.port"} <= loaded


@pytest.mark.parametrize("heavy", ["pydantic", "wsproto", "numpy", "importlib.metadata", "roamcast.mqtt.connection"])
def test_l6_pub_does_not_load(heavy: str) -> None:
    loaded = loaded_by(
        "from roamcast.cli.main import application\n"
        "sys.argv = ['roamcast', 'pub', 'a', '{}', '--broker', 'mqtt://127.0.0.1:1', '--at', 'nowhere']\n"
        "try:\n    application(['pub'])()\nexcept SystemExit as left:\n    assert left.code == 2"
    )
    assert "roamcast.client.client" in loaded
    assert heavy not in loaded


def test_l6_every_command_of_the_help_has_a_file() -> None:
    assert {name for panel in MAP.values() for name in panel} == set(COMMANDS)
