"""Every package opens with a page of prose, and names only files that it has."""

import ast
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, named_paths

SOURCE = ROOT / "src/roamcast"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def prose_of(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""


def missing_files(package: Path, prose: str) -> list[str]:
    roots = (package, SOURCE, ROOT)
    return [path for path in named_paths(prose) if not any((root / path).exists() for root in roots)]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_package_opens_with_prose_about_its_files(package: Path) -> None:
    prose = prose_of(package)
    assert len(prose.splitlines()) >= 3
    assert missing_files(package, prose) == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing_files(SOURCE / "model", "`event.py`, `gone.py` and `filter/`") == ["gone.py"]
