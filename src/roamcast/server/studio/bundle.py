"""The page itself: the files of a directory, read once, so that no request can name a file that is none of them."""

import mimetypes
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

import roamcast

STUDIO = "/studio/"
DIST = Path(roamcast.__file__).parent / "studio" / "dist"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
"""Not what the system says: that differs from machine to machine, and a script of the wrong type is not run."""
FRAMES = {"content-security-policy": "frame-ancestors 'none'"}
"""No other page may put this one into itself, and have people click in it."""

MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>roamcast studio</title></head>
<body><h1>The studio's page is not there</h1>
<p>This broker serves it from <code>roamcast/studio/dist/</code>, and there is no <code>index.html</code> in it. An
installed roamcast has it. In a checkout it is built as <code>docs/reference/STUDIO.md</code> says.</p>
<p>What the page is told can be read without it: <code>/studio/feed</code> is a WebSocket.</p>
</body></html>
"""


class Bundle:
    def __init__(self, folder: Path = DIST) -> None:
        self._files: dict[str, bytes] = {}
        self.read(folder)

    def read(self, folder: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.resolve().is_relative_to(folder.resolve())
        }

    def file(self, name: str) -> Response:
        name = name or INDEX
        content = self._files.get(name)
        if content is None and INDEX not in self._files:
            return Response(MISSING, 404, media_type=TYPES[".html"])
        if content is None:
            return Response(f"there is no '{name[:200]}' in the studio\n", 404, media_type=TYPES[".txt"])
        return Response(content, headers={**FRAMES, "content-type": type_of(name)})


def type_of(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


async def to_the_page(_: Request) -> Response:
    return RedirectResponse(STUDIO, 301)
