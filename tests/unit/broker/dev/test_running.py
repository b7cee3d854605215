"""Notes of running clusters, and what a command without an address makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.profiles import Found, of_the_running_cluster
from broker.dev.running import TEMPORARY_PREFIX, RunningCluster, noted, notes_directory, running_clusters
from tests.support.paths import ROOT

ONE = RunningCluster(os.getpid(), "127.0.0.1:9092", "127.0.0.1:2181")
TWO = RunningCluster(os.getpid() + 1, "127.0.0.1:9192", "127.0.0.1:2281")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_note_holds_while_its_cluster_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with noted(ONE):
        assert running_clusters() == [ONE]
        assert of_the_running_cluster() == Found(ONE.bootstrap)
        assert capsys.readouterr().err == "odradek: using the cluster of `odradek dev` at 127.0.0.1:9092\n"
    assert running_clusters() == []
    assert list(notes_directory().iterdir()) == []


def test_without_a_cluster_nothing_is_guessed() -> None:
    with pytest.raises(CommandError, match="no `odradek dev` runs"):
        of_the_running_cluster()


def test_of_several_none_is_chosen() -> None:
    with noted(ONE), noted(TWO):
        assert set(running_clusters()) == {ONE, TWO}
        with pytest.raises(CommandError, match=r"127\.0\.0\.1:9[0-9]+ or 127\.0\.0\.1:9"):
            of_the_running_cluster()


def test_what_a_killed_cluster_left_is_removed(state: Path) -> None:
    temporary = state / f"{TEMPORARY_PREFIX}x"
    (temporary / "data").mkdir(parents=True)
    program = (
        "import os, signal\n"
        "from broker.dev.running import *\n"
        f"with noted(RunningCluster(os.getpid(), 'a:1', 'b:2', {str(temporary)!r})):\n"
        "    assert running_clusters()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60)
    assert len(list(notes_directory().glob("*.json"))) == 1
    assert running_clusters() == []
    assert not temporary.exists()
    assert not list(notes_directory().glob("*.json"))


def test_a_note_of_others_makes_us_remove_nothing(state: Path) -> None:
    victim = state / "precious"
    victim.mkdir()
    notes_directory().mkdir(parents=True)
    note = {"pid": 1, "bootstrap": "a:1", "zookeeper": "b:2", "temporary": str(victim)}
    (notes_directory() / "1.json").write_text(json.dumps(note))
    (notes_directory() / "2.json").write_text("[")
    (notes_directory() / "3.json").write_text("{}")
    assert running_clusters() == []
    assert victim.exists()


def test_a_state_directory_that_cannot_be_written_costs_the_note_only(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "file"))
    with noted(ONE):
        assert running_clusters() == []
