"""The claims on the papers' pages are those of the experiments (P4)."""

import re
from pathlib import Path

import pytest

from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.claims_pages import BEGIN, END, NOT_RUN, Dated, cell, paper_of, tallies, write_pages, written
from roamcast.papers.experiment import Row
from roamcast.papers.report import MARKS, section_of
from tests.cli.test_commands import invoke

PAGES = Path("docs/papers")
PAPERS = list(dict.fromkeys(paper_of(name) for name in EXPERIMENTS))


def block_of(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0]


def claims_in(block: str) -> list[tuple[str, str, str, str]]:
    """The rows of the table that are claims: what, paper, measured, verdict."""
    found = []
    for line in block.splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[1].startswith(MARKS):
            found.append((cells[0], cells[1], cells[2], cells[3]))
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_p4_a_page_has_the_claims_of_its_experiments_in_their_order(paper: str) -> None:
    shown = claims_in(block_of((PAGES / f"{paper}.md").read_text(encoding="utf-8")))
    wanted = [claim for each in EXPERIMENTS.values() if paper_of(each.name) == paper for claim in each.claims]
    assert [each[:2] for each in shown] == [(cell(claim.what), cell(claim.paper)) for claim in wanted]


@pytest.mark.parametrize("paper", PAPERS)
def test_p4_a_page_counts_the_claims_that_it_shows(paper: str) -> None:
    block = block_of((PAGES / f"{paper}.md").read_text(encoding="utf-8"))
    shown = [each for each in claims_in(block) if each[2] != NOT_RUN]
    for mark in MARKS:
        these = [each for each in shown if each[1].startswith(mark)]
        holding = sum(each[3].startswith("holds") for each in these)
        assert f"{mark} {holding} of {len(these)}" in block
    left = len(claims_in(block)) - len(shown)
    assert (f"Of {left} more the experiments were not run." in block) is (left > 0)


def test_p4_claims_are_counted_by_paper_and_by_how_they_stand_to_it() -> None:
    rows = [Row("steam-groups", {"announcements": 40}, 0, 1, {"groups": 40.0, "collisions": 1.0})]
    sections = [section_of(EXPERIMENTS["steam-groups"], rows), section_of(EXPERIMENTS["rebeca-blackout"], [])]
    steam, rebeca = tallies(sections)
    assert (steam.paper, steam.published) == ("STEAM", (1, 2))
    assert rebeca.published[0] == 0


def test_p4_pages_are_written_from_what_was_run(tmp_path: Path) -> None:
    for paper in PAPERS:
        (tmp_path / f"{paper}.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    rows = [Row("steam-groups", {"announcements": 40}, 0, 1, {"groups": 40.0, "collisions": 1.0})]
    run = [Dated(section_of(EXPERIMENTS["steam-groups"], rows), "quick", "2026-11-19")]
    assert len(write_pages(tmp_path, EXPERIMENTS, run)) == len(PAPERS)
    text = (tmp_path / "STEAM.md").read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    shown = {what: (measured, verdict) for what, _, measured, verdict in claims_in(block_of(text))}
    assert shown["groups that a consumer of all joins"] == ("40", "holds")
    assert shown["collisions"] == ("1", "**differs**")
    assert shown["frames up to 200 m"] == (NOT_RUN, "")
    assert "`steam-groups`; 1 runs, quick preset, 2026-11-19 |" in text


def test_p4_what_was_not_run_this_time_stays_on_its_page_and_is_counted() -> None:
    page = f"{BEGIN}\n{END}"
    for name in ("steam-groups", "steam-speed"):
        page = written(page, "STEAM", EXPERIMENTS, [Dated(section_of(EXPERIMENTS[name], []), "quick", name)])
    groups = [each for each in claims_in(block_of(page)) if each[0] == "groups that a consumer of all joins"]
    assert groups[0][2] != NOT_RUN
    assert "1 runs" not in page
    assert "0 runs, quick preset, steam-groups" in page
    count = len(EXPERIMENTS["steam-groups"].claims) + len(EXPERIMENTS["steam-speed"].claims)
    assert f"as published 0 of {count}" in page


def test_p4_what_an_experiment_no_longer_claims_does_not_stay_on_its_page() -> None:
    run = [Dated(section_of(EXPERIMENTS["steam-groups"], []), "quick", "2026-11-19")]
    page = written(f"{BEGIN}\n{END}", "STEAM", EXPERIMENTS, run).replace("groups that a consumer", "groups that one")
    assert "2026-11-19" not in written(page, "STEAM", EXPERIMENTS, [])


def test_p4_a_page_without_a_place_for_claims_is_refused() -> None:
    with pytest.raises(ValueError, match="end of claims"):
        written("no marks", "STEAM", EXPERIMENTS, [])


def test_p4_the_report_refuses_a_folder_without_pages(tmp_path: Path) -> None:
    rows = [Row("steam-groups", {"announcements": 40}, 0, 1, {"groups": 40.0, "collisions": 0.0})]
    from roamcast.papers.rows import keep

    keep(rows, tmp_path / "steam-groups.quick.json")
    code, output = invoke("experiments", "report", "--out", str(tmp_path), "--pages", str(tmp_path / "none"))
    assert code == 2
    assert "as published" in output
    assert "--pages" in output
