"""The committed bundle of the studio is that of the committed source, small, and complete in itself (L5)."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "studio"
DIST = ROOT / "src" / "roamcast" / "studio" / "dist"
GZIP_BYTES_MAX = 250_000
SOURCES = ("index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts")


def hashes(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    files = [
        file
        for name in names
        for file in ((folder / name).rglob("*") if (folder / name).is_dir() else [folder / name])
    ]
    return {
        file.relative_to(folder).as_posix(): sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()
    }


def differences(told: dict[str, str], found: dict[str, str]) -> list[str]:
    return sorted(name for name in told.keys() | found.keys() if told.get(name) != found.get(name))


def test_the_bundle_was_built_from_this_source() -> None:
    manifest = json.loads((DIST / "manifest.json").read_text())
    assert differences(manifest["source"], hashes(SOURCE, SOURCES)) == [], (
        "run `make studio`, and commit what it builds"
    )


def test_nothing_in_the_bundle_was_changed_by_hand() -> None:
    manifest = json.loads((DIST / "manifest.json").read_text())
    names = tuple(path.name for path in DIST.iterdir() if path.name != "manifest.json")
    assert differences(manifest["bundle"], hashes(DIST, names)) == []


def test_a_changed_a_missing_and_a_new_file_are_found() -> None:
    assert differences({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == ["b", "c", "d"]


def test_the_bundle_is_small_and_without_source_maps() -> None:
    files = [path for path in DIST.iterdir() if path.suffix in (".html", ".css", ".js")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < GZIP_BYTES_MAX
    assert not list(DIST.glob("*.map"))


def test_the_page_names_files_of_the_bundle_alone() -> None:
    page = (DIST / "index.html").read_text()
    named = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert named
    assert [name for name in named if not (DIST / name.removeprefix("./")).is_file()] == []


def test_what_is_installed_is_locked_without_the_name_of_a_server() -> None:
    assert "resolved" not in (SOURCE / "package-lock.json").read_text()
