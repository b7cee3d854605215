"""Which cluster a command talks to: the order, and what is wrong with a profile file."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.profiles import bootstrap_server, find
from broker.dev.running import RunningCluster, noted
from tests.support.commands import run

TEXT = 'default = "one"\n[one]\nbootstrap-server = "one:1"\n[two]\nbootstrap-server = "two:2"\n'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_first_that_says_something_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odradek" / "profiles.toml"
    file.parent.mkdir()
    file.write_text(TEXT)
    here = {"XDG_CONFIG_HOME": str(tmp_path)}
    servers, profile = {"ODRADEK_BOOTSTRAP_SERVERS": "servers:3"}, {"ODRADEK_PROFILE": "two"}
    assert bootstrap_server("two", {**here, **servers}) == "two:2"
    assert bootstrap_server(None, {**here, **servers, **profile}) == "servers:3"
    assert bootstrap_server(None, {**here, "ODRADEK_BOOTSTRAP_SERVER": "old:4", **profile}) == "old:4"
    assert bootstrap_server(None, {**here, **profile}) == "two:2"
    assert bootstrap_server(None, here) == "one:1"
    elsewhere = {"ODRADEK_PROFILES": str(file)}
    assert bootstrap_server(None, elsewhere) == "one:1"
    capsys.readouterr()
    assert bootstrap_server("two", here) == "two:2"
    assert capsys.readouterr().err == "odradek: using profile two at two:2\n"


def test_the_running_cluster_comes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = {"XDG_CONFIG_HOME": str(tmp_path / "no")}
    with noted(RunningCluster(1, "dev:1", "zookeeper:1")):
        assert bootstrap_server(None, nowhere) == "dev:1"
    assert "using the cluster of `odradek dev` at dev:1" in capsys.readouterr().err


def test_the_running_cluster_says_how_to_log_in(tmp_path: Path) -> None:
    nowhere = {"XDG_CONFIG_HOME": str(tmp_path / "no")}
    with noted(RunningCluster(1, "dev:1", "zookeeper:1", client_config="/data/security/admin.properties")):
        assert find(None, nowhere) == ("dev:1", Path("/data/security/admin.properties"))
        named = {**nowhere, "ODRADEK_BOOTSTRAP_SERVERS": "dev:1"}
        assert find(None, named) == ("dev:1", None), "who names a cluster says how to log in"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT, "has no profile 'three' (--profile); it has one, two"),
        ("[three]\n", "profile 'three' needs bootstrap-server = \"host:port,...\""),
        ('[three]\nbootstrap-servers = "a:1"\n', "has 'bootstrap-servers', which is not known"),
        ("three", "is not TOML"),
        (None, "No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_profile(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "profiles.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError) as error:
        bootstrap_server("three", {"ODRADEK_PROFILES": str(file)})
    assert problem in str(error.value)
    assert error.value.exit_code == 2


def test_a_profile_and_an_address() -> None:
    done = run("topics", "list", "--profile", "one", "-b", "a:1")
    assert (done.code, done.err) == (2, "odradek: --bootstrap-server and --profile exclude each other\n")
