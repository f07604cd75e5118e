"""What the tests of the documentation read from it: links, headings, fenced blocks and tables of keys."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
KEY_TABLE = re.compile(r"^\| key \| type \| default \| meaning \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return [block for said, block in FENCED.findall(text) if said == language]


def links(text: str) -> list[str]:
    """All targets but those on other sites; what stands in code is none."""
    prose = CODE.sub("", FENCED.sub("", text))
    return [target for target in LINK.findall(prose) if "://" not in target]


def anchors(text: str) -> set[str]:
    """What links may put behind a `#`: headings in lower case, with dashes for spaces and without signs."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in links(page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        found = page.parent / file if file else page
        if not found.exists() or (anchor and anchor not in anchors(found.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def key_tables(text: str) -> list[list[tuple[str, str]]]:
    """The key and the default of every row, for each table of keys."""
    return [
        [(cells[1].strip(" `"), cells[3].strip(" `")) for cells in (row.split("|") for row in table.splitlines())]
        for table in KEY_TABLE.findall(text)
    ]


def named_paths(text: str) -> list[str]:
    """Files and folders in backticks."""
    return [code for code in CODE.findall(FENCED.sub("", text)) if re.fullmatch(r"[\w\-./]+(\.(py|toml|md)|/)", code)]
