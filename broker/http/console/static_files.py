"""The page's own files, read once from the package."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from broker.http.console.access import SAFE_HEADERS
from broker.http.messages import HttpRequest, HttpResponse

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_PAGE = "index.html"


class StaticFiles:
    """By path below `/console/`; the empty path is the page."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        self._add(files("broker.http.console") / "static", "")

    def _add(self, folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                self._add(entry, f"{prefix}{entry.name}/")
            elif (kind := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
                content = entry.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                self._files[prefix + entry.name] = content, kind, tag

    def answer(self, request: HttpRequest, path: str) -> HttpResponse | None:
        """The file, or that the browser's copy is still right; None if there is no such file."""
        found = self._files.get(path or _PAGE)
        if found is None:
            return None
        content, kind, tag = found
        headers = {**SAFE_HEADERS, "etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return HttpResponse(HTTPStatus.NOT_MODIFIED, kind, b"", headers)
        return HttpResponse(HTTPStatus.OK, kind, content, headers)
