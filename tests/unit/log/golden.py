"""The captured log directories and the dump tool's text about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import GOLDEN, SHARED_GOLDEN

SMALL = GOLDEN / "log"
FULL = SHARED_GOLDEN / "log"


def roots() -> list[Path]:
    """The small copy in the repository, and the complete captures where they are available."""
    return [SMALL, FULL] if FULL.is_dir() else [SMALL]


def dumps() -> Iterator[tuple[Path, str, str]]:
    """(partition directory, arguments of the dump tool, its output) for each dump block of each capture."""
    for root in roots():
        for text in sorted(root.glob("*/dump/*.txt")):
            directory = text.parent.parent / "data" / text.stem
            for block in re.split(r"(?m)^# ", text.read_text())[1:]:
                command, _, output = block.partition("\n")
                arguments, _, _ = command.partition(" -> exit ")
                yield directory, arguments, output.rstrip("\n")


def log_dumps() -> Iterator[tuple[Path, str]]:
    """(log file, output) of each deep dump of a log file."""
    for directory, arguments, output in dumps():
        name = arguments.split()[-1]
        if name.endswith(".log") and (directory / name).exists():
            yield directory / name, output
