"""The command `odradek` in this process, as its entry point runs it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from unittest import mock

from broker.cli.main import main
from broker.dev.polling import wait_until
from timer.clock import SystemClock


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b"") -> Done:
    """Run `odradek ARGUMENTS`; the environment is added to this process's own. For one thread at a time."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")),
        mock.patch.object(sys, "argv", ["odradek", *arguments]),
        mock.patch.dict(os.environ, environment or {}),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds; at most half a minute."""
    assert wait_until(holds, SystemClock(), 30_000, 100)
