"""Tables of the command line: columns as wide as their longest value."""

from __future__ import annotations

from collections.abc import Sequence

import click


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print heads and rows, two spaces between columns and none at the ends of lines."""
    cells = [[str(value) for value in row] for row in [heads, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        click.echo("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())
