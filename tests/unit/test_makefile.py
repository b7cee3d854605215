"""Every command that `make help` names does something."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.paths import ROOT

TARGETS = re.findall(r"^# +make ([a-z-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_help_names_the_commands() -> None:
    assert {"run", "up", "test", "check", "contract", "spark", "cluster-test", "cluster-up"} <= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_exists(target: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" not in done.stdout
