"""L5: the page is served from its directory, and nothing else is."""

from pathlib import Path

import pytest

from roamcast.server.studio.bundle import Bundle
from tests.server.studio.stage import broker_at, get, run, studio_of

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>studio")
    (folder / "assets" / "app.js").write_text("run()")
    (folder / "assets" / "font.woff2").write_bytes(b"\0")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


def asked(bundle: Bundle, path: str) -> tuple[int, str]:
    response = bundle.file(path.removeprefix("/studio/"))
    return response.status_code, response.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/studio/", "text/html; charset=utf-8"),
        ("/studio/index.html", "text/html; charset=utf-8"),
        ("/studio/assets/app.js", "text/javascript; charset=utf-8"),
        ("/studio/assets/font.woff2", "font/woff2"),
    ],
)
def test_l5_a_file_has_the_type_that_browsers_want(dist: Path, path: str, content_type: str) -> None:
    assert asked(Bundle(dist), path) == (200, content_type)


@pytest.mark.parametrize(
    "path",
    [
        "/studio/../secret.txt",
        "/studio//secret.txt",
        "/studio/assets/../../secret.txt",
        "/studio/assets",
        "/studio/link.txt",
        "/studio/\0",
        "/studio/gone.js",
    ],
)
def test_l5_nothing_outside_the_directory_is_served(dist: Path, path: str) -> None:
    assert asked(Bundle(dist), path)[0] == 404


def test_l5_without_a_bundle_the_page_says_what_is_missing(tmp_path: Path) -> None:
    response = Bundle(tmp_path / "nothing").file("")
    assert response.status_code == 404
    assert b"roamcast/studio/dist/" in bytes(response.body)


def test_l5_a_broker_serves_the_page_at_studio(tmp_path: Path, dist: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            studio_of(broker).bundle.read(dist)
            status, headers, _ = await get(broker, "/studio")
            assert (status, headers["location"]) == (301, "/studio/")
            status, headers, body = await get(broker, "/studio/")
            assert (status, body) == (200, b"<!doctype html>studio")
            assert headers["content-security-policy"] == "frame-ancestors 'none'"
            for path in ("../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%00"):
                assert (await get(broker, f"/studio/{path}"))[0] == 404

    run(work)
