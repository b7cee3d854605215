"""What only Linux has is done without where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from network.server import outbox
from tests.support.paths import ROOT


def test_a_gathered_write_without_msg_more() -> None:
    program = (
        "import socket\n"
        "del socket.MSG_MORE\n"
        "from network.server.transport import PlaintextTransport\n"
        "ours, theirs = socket.socketpair()\n"
        "assert PlaintextTransport(ours).sendmsg([b'one', b'two'], True) == 6\n"
        "assert theirs.recv(10) == b'onetwo'\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


def test_reads_without_a_probe_of_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_probe_supported", False)
    monkeypatch.delattr(os, "RWF_NOWAIT")
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        assert outbox.in_page_cache(file.fileno(), 0, 10)
        assert outbox.read_cached(file.fileno(), 2, 3) == b"234"  # type: ignore[comparison-overlap]
