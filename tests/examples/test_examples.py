"""Every example runs with `roamcast sim` and prints what its page says."""

import re
from pathlib import Path

import pytest

from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import load_scenario

EXAMPLES = Path("examples")
SCENARIOS = sorted(EXAMPLES.glob("*.toml"))
PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")


def promised(name: str) -> list[str]:
    """The block behind the command of an example in the page."""
    found = re.search(rf"roamcast sim examples/{name}\.toml\n```\n.*?```\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"examples/README.md does not show what examples/{name}.toml prints"
    return found[1].splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_an_example_prints_what_its_page_promises(path: Path) -> None:
    """S5, S9, C4, C5, C9: each with the application interface that both families share."""
    scenario = load_scenario(path)
    said: list[str] = []

    def say(now_us: int, host: str, text: str) -> None:
        said.append(f"{now_us / 1e6:9.3f} s  {host}  {text}")

    run = Run(scenario, kit_of(scenario.protocol, scenario.radio), seed=1, say=say)
    for _ in run.steps():
        pass
    run.finish()
    assert said == promised(path.stem)


def test_the_page_shows_every_example() -> None:
    assert sorted(re.findall(r"roamcast sim examples/(\w+)\.toml", PAGE)) == [path.stem for path in SCENARIOS]
