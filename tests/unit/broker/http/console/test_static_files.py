"""The page's own files: all there, typed, and without anything that a strict policy would stop."""

from __future__ import annotations

import re
import tomllib

from broker.http.console.static_files import StaticFiles
from broker.http.messages import HttpRequest
from tests.support.paths import ROOT

STATIC = ROOT / "broker" / "http" / "console" / "static"
ASKED = HttpRequest("/console/", {}, {})
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


def test_every_file_is_served_with_its_type_and_policy() -> None:
    static = StaticFiles()
    for name in FILES:
        found = static.answer(ASKED, name)
        assert found is not None, name
        assert found.body == (STATIC / name).read_bytes()
        assert "script-src 'self'" in found.headers["content-security-policy"]
    assert static.answer(ASKED, "../room.py") is None
    assert static.answer(ASKED, "lib") is None


def test_a_copy_that_is_still_right_is_not_sent_again() -> None:
    static = StaticFiles()
    first = static.answer(ASKED, "")
    assert first is not None
    again = static.answer(HttpRequest("/console/", {}, {"if-none-match": first.headers["etag"]}), "index.html")
    assert again is not None
    assert (again.status, again.body) == (304, b"")


def test_the_package_takes_every_file_along() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    globs = patterns["broker.http.console"]
    packed = {path.relative_to(STATIC).as_posix() for glob in globs for path in STATIC.parent.glob(glob)}
    assert set(FILES) <= packed


def test_no_script_makes_markup_and_no_file_leads_outside() -> None:
    """Contents of records reach the page as text only: what could make markup of a text is not used at all."""
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser")
    for name in FILES:
        text = (STATIC / name).read_text()
        assert not forbidden.search(text), name
        outside = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, f"{name}: {outside}"


def test_no_file_is_long() -> None:
    assert {name for name in FILES if len((STATIC / name).read_text().splitlines()) > 400} == set()
