"""The page of all commands is up to date, and the parser says what it should."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import click
import pytest

from broker.cli import reference_page
from broker.cli.main import odradek
from tests.support.commands import run
from tests.support.paths import ROOT


def test_the_page_is_what_the_parser_says() -> None:
    """Else: python -m broker.cli.reference_page > docs/commands.md"""
    assert (ROOT / "docs/commands.md").read_text() == reference_page.page()


def test_every_variable_is_on_the_page() -> None:
    internal = re.compile("ODRADEK_(PARENT_.*|CONTROL_TOKEN|COMPLETE)")  # between our own processes, and click's
    files = [path for folder in ("broker", "odradek", "spark_jobs") for path in (ROOT / folder).rglob("*.py")]
    read = {name for path in files for name in re.findall(r'"(ODRADEK_[A-Z_]+)"', path.read_text())}
    assert "ODRADEK_PROFILE" in read
    told = {*reference_page.VARIABLES, "ODRADEK_BOOTSTRAP_SERVER"}
    assert {name for name in read if not internal.fullmatch(name)} <= told


def leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, click.Context(inner, context, info_name=name))
    else:
        yield context.command_path.removeprefix("odradek "), command


COMMANDS = dict(leaves(odradek, click.Context(odradek, info_name="odradek")))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_says_what_it_is(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    options = [name for each in command.params if isinstance(each, click.Option) for name in each.opts]
    assert len(options) == len(set(options))
    if "--bootstrap-server" in options and not name.startswith(("spark ", "profile ")):
        assert "--profile" in options
        # Its --output names a file, as README says, and what it prints is JSON.
        assert name == "reassign generate" or "--json" in options


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = run("completion", shell).out
    assert "_ODRADEK_COMPLETE" in script
    assert "odradek" in script


def test_a_shell_gets_commands_and_options() -> None:
    def completed(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_ODRADEK_COMPLETE": "bash_complete"}
        done = run(environment=line)
        return [row.split(",")[1] for row in done.out.splitlines()]

    assert completed("odradek", "conf") == ["configs"]
    assert completed("odradek", "configs", "d") == ["delete", "describe"]
    assert "--entity-type" in completed("odradek", "configs", "describe", "--entity")
    assert completed("odradek", "topics", "list", "--output", "j") == ["json"]


def test_zsh_and_fish_get_them_too() -> None:
    """As their scripts ask; each answer is a kind, a word and its help."""
    zsh = run(environment={"COMP_WORDS": "odradek prof", "COMP_CWORD": "1", "_ODRADEK_COMPLETE": "zsh_complete"})
    assert zsh.out.splitlines()[:2] == ["plain", "profile"]
    fish = run(environment={"COMP_WORDS": "odradek prof", "COMP_CWORD": "prof", "_ODRADEK_COMPLETE": "fish_complete"})
    assert fish.out.startswith("plain,profile\t")


def test_bash_reads_the_script() -> None:
    script = run("completion", "bash").out
    environment = {**os.environ, "BASH_ENV": ""}
    done = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p odradek"], capture_output=True, text=True, env=environment, check=True
    )
    assert "-F _odradek_completion odradek" in done.stdout
