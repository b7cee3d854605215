"""The pictures of docs/console.md are there and small; `python -m tests.console.pictures` takes them."""

from __future__ import annotations

import re

from tests.console.pictures import IMAGES, PICTURES
from tests.support.paths import ROOT

MAX_BYTES = 120_000


def test_the_pages_pictures_are_there_and_small() -> None:
    named = set(re.findall(r"images/(console-[\w-]+\.png)", (ROOT / "docs" / "console.md").read_text()))
    assert named == {f"{name}.png" for name, *_ in PICTURES}
    for name in sorted(named):
        content = (IMAGES / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < MAX_BYTES, name
