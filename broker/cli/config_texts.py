"""Configs as people write them on a command line and in files."""

from __future__ import annotations

import re
from pathlib import Path

from broker.cli.errors import CommandError
from log.files.properties_text import parse_properties

# A value in brackets may hold commas; the brackets are not part of it.
_ITEM = re.compile(r"\s*([^=,\s]+)\s*=\s*(?:\[(?P<listed>[^\]]*)\]|(?P<plain>[^,]*))(?:,|$)")


def key_value(text: str) -> tuple[str, str]:
    """`KEY=VALUE`; everything behind the first `=` is the value. Raises CommandError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CommandError(f"{text!r} is not KEY=VALUE", exit_code=2)
    return key.strip(), value


def add_config(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`. Raises CommandError."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise CommandError(f"--add-config {text!r} is not like key=value,key=[value,value]", exit_code=2)
        found[match[1]] = match["listed"] if match["listed"] is not None else match["plain"].strip()
        position = match.end()
    return found


def properties(path: Path) -> dict[str, str]:
    """The pairs of a properties file. Raises CommandError."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}", exit_code=2) from None
