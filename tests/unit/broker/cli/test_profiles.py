"""Which cluster a command talks to: the order, and what is wrong with a profile file."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.cli.client import bootstrap_option, command_security
from broker.cli.errors import CommandError
from broker.cli.output import say
from broker.cli.profiles import Found, bootstrap_server, find
from broker.dev.running import RunningCluster, noted
from tests.support.commands import Done, run

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
        assert find(None, nowhere) == Found("dev:1", Path("/data/security/admin.properties"))
        named = {**nowhere, "ODRADEK_BOOTSTRAP_SERVERS": "dev:1"}
        assert find(None, named) == Found("dev:1"), "who names a cluster says how to log in"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT, "has no profile 'three' (--profile); it has one, two"),
        ("[three]\n", "profile 'three' needs bootstrap-server = \"host:port,...\""),
        ('[three]\nbootstrap-servers = "a:1"\n', "has 'bootstrap-servers', which is not known"),
        (
            '[three]\nbootstrap-server = "a:1"\noutput = "xml"\n',
            "output of profile 'three' is none of table, json, yaml",
        ),
        ('[three]\nbootstrap-server = "a:1"\ncommand-config = 1\n', "command-config of profile 'three' is no path"),
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


def test_a_profile_is_kept_changed_and_deleted(tmp_path: Path) -> None:
    file, login = tmp_path / "new" / "profiles.toml", tmp_path / "login.properties"
    login.write_text("")

    def profile(*arguments: str, code: int = 0) -> Done:
        done = run("profile", *arguments, environment={"ODRADEK_PROFILES": str(file)})
        assert done.code == code, done
        return done

    assert profile("list").out == "PROFILE  BOOTSTRAP-SERVER  COMMAND-CONFIG  OUTPUT  ROLE\n"
    profile("set", "one", "-b", "one:1", "--default")
    profile("set", "two", "-b", "two:2", "--command-config", str(login), "--output", "json")
    assert file.read_text() == (
        f'default = "one"\n\n[one]\nbootstrap-server = "one:1"\n\n[two]\nbootstrap-server = "two:2"\n'
        f'command-config = "{login}"\noutput = "json"\n'
    )
    assert find("two", {"ODRADEK_PROFILES": str(file)}) == Found("two:2", login, "two", "json")
    profile("set", "two", "--output", "yaml")
    first, second = json.loads(profile("list", "--json").out)
    assert (first["profile"], first["role"], first["command_config"]) == ("one", "default", None)
    assert second == {
        "profile": "two", "bootstrap_server": "two:2", "command_config": str(login), "output": "yaml", "role": "",
    }  # fmt: skip
    assert "needs bootstrap-server" in profile("set", "three", "--output", "json", code=2).err
    assert "'two' is not host:port" in profile("set", "two", "-b", "two", code=2).err
    assert "a profile's name has letters" in profile("set", "default", "-b", "a:1", code=2).err
    assert profile("delete", "one").out == f"Deleted profile one from {file}.\n"
    assert "default" not in file.read_text()
    assert "has no profile 'one'; it has two" in profile("delete", "one", code=1).err


@pytest.mark.parametrize(
    ("arguments", "environment", "form", "config"),
    [
        ([], {}, "yaml", "of-profile"),
        (["--output", "table"], {}, "table", "of-profile"),
        (["--json"], {}, "json", "of-profile"),
        (["--command-config", "of-line"], {}, "yaml", "of-line"),
        ([], {"ODRADEK_COMMAND_CONFIG": "of-environment"}, "yaml", "of-profile"),
        (["--profile", "bare"], {"ODRADEK_COMMAND_CONFIG": "of-environment"}, "table", "of-environment"),
        (["--profile", "bare"], {}, "table", None),
        (["-b", "127.0.0.1:1"], {"ODRADEK_COMMAND_CONFIG": "of-environment"}, "table", "of-environment"),
    ],
)
def test_what_of_a_profile_holds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    environment: dict[str, str],
    form: str,
    config: str | None,
) -> None:
    """The line before the profile, the profile before the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("of-profile", "of-line", "of-environment"):
        (tmp_path / name).write_text(f"security.protocol={name}\n")
    file = tmp_path / "profiles.toml"
    file.write_text(
        'default = "one"\n[one]\nbootstrap-server = "127.0.0.1:1"\ncommand-config = "of-profile"\noutput = "yaml"\n'
        '[bare]\nbootstrap-server = "127.0.0.1:1"\n'
    )
    seen: list[str] = []

    @click.command()
    @bootstrap_option
    def shown(bootstrap_server: str) -> None:
        say("text", servers=bootstrap_server)
        try:
            assert command_security() is None
        except CommandError as error:  # no such protocol, and the file that names it
            seen.append(str(error))

    done = CliRunner().invoke(shown, arguments, env={**environment, "ODRADEK_PROFILES": str(file)})
    assert done.exit_code == 0, done
    as_json = '[\n  {\n    "servers": "127.0.0.1:1"\n  }\n]\n'
    assert done.stdout == {"table": "text\n", "json": as_json, "yaml": '- servers: "127.0.0.1:1"\n'}[form]
    assert [config.upper() in text for text in seen] == [True] if config else not seen
