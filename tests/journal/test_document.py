"""P1: `docs/JOURNAL.md` is normative, so it and the schema must say the same."""

import re
from pathlib import Path

import pytest

from roamcast.journal.schema import HEADER, REGION, SCHEMA_VERSION, TABLES, VALUE, Table

DOCUMENT = (Path(__file__).parents[2] / "docs/JOURNAL.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    found = re.search(rf"^### `{name}`\n(.*?)(?=^##)", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert found is not None, f"no section for table '{name}'"
    return found[1]


def described_columns(text: str) -> list[tuple[str, bool]]:
    """Names of columns in the order of the rows, and whether each may be null."""
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]* \| ([^|]*?) ?\|", text, re.MULTILINE)
    return [(name, bool(null)) for names, null in rows for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_p1_the_document_has_every_column_and_its_null_rule(table: Table) -> None:
    assert described_columns(section(table.name)) == [(column.name, column.nullable) for column in table.columns]


def test_p1_the_document_has_the_tables_in_the_order_in_which_they_appear() -> None:
    assert re.findall(r"^### `(\w+)`", DOCUMENT, re.MULTILINE) == [table.name for table in TABLES]


def test_p1_the_document_has_the_common_columns() -> None:
    common = DOCUMENT.split("## Tables")[1].split("### ")[0]
    assert re.findall(r"^\| `(\w+)`", common, re.MULTILINE) == [column.name for column in HEADER]


@pytest.mark.parametrize("type_", [VALUE, REGION], ids=["value", "region"])
def test_p1_the_document_has_the_nested_types(type_: object) -> None:
    said = str(type_).replace("bool", "boolean").replace("list<element: ", "list<").replace("list<item: ", "list<")
    assert said in DOCUMENT


def test_p1_the_document_is_of_this_version() -> None:
    assert f"`roamcast.journal.version` = `{SCHEMA_VERSION}`" in DOCUMENT
