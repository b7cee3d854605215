"""A progress bar for people, and a line now and then for files and pipes."""

from __future__ import annotations

import sys
from types import TracebackType

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

_LINES = 10


def byte_bar(*columns: ProgressColumn) -> Progress:
    """A bar on standard error that counts bytes and is gone when it ends; `columns` stand before it."""
    return Progress(
        *columns,
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class ByteProgress:
    """On standard error: a bar if that is a terminal, else a line at every tenth of the way."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(1, total)
        self._shown = -1
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = byte_bar(TextColumn("{task.description}"))
            self._task = self._bar.add_task(what, total=self._total)

    def __enter__(self) -> ByteProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int) -> None:
        """So many bytes of the total are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
            return
        step = done * _LINES // self._total
        if step > self._shown:
            self._shown = step
            click.echo(f"{self._what}: {decimal(done)} of {decimal(self._total)}", err=True)
