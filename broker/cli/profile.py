"""``odradek profile``: the clusters of the profile file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.cli.output import FORMS, output_option, rows, say
from broker.cli.profiles import CONFIG, DEFAULT, OUTPUT, SERVER, checked, names, profile_file, read
from log.files.checkpoint import replace_file
from network.client.cluster_client import parse_bootstrap

_NAME = re.compile(r"[A-Za-z0-9_-]+")


@click.group("profile")
def command() -> None:
    """Keep clusters by name: addresses, login, form of the output."""


@command.command("list")
@output_option
def list_() -> None:
    """The clusters that have a name; the default is the one that commands talk to where nothing else says one."""
    path = profile_file(os.environ)
    content = read(path) if path.exists() else {}
    found = [checked(path, name, _profile(content, name)) for name in names(content)]
    default = content.get(DEFAULT)
    shown = [
        [each.profile, each.servers, each.command_config, each.output, "default" if each.profile == default else ""]
        for each in found
    ]
    rows(["PROFILE", "BOOTSTRAP-SERVER", "COMMAND-CONFIG", "OUTPUT", "ROLE"], shown)


@command.command("set")
@click.argument("name")
@click.option("--bootstrap-server", "-b", metavar="HOST:PORT,...", help="Needed for a new profile.")
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Properties file with the login.",
)
@click.option("--output", type=click.Choice(FORMS), help="Form of what commands show.")
@click.option("--default", "default", is_flag=True, help="Commands talk to it where nothing else says a cluster.")
def set_(
    name: str, bootstrap_server: str | None, command_config: Path | None, output: str | None, default: bool
) -> None:
    """Make the profile NAME, or change what is given of it. Comments in the file are not kept."""
    if not _NAME.fullmatch(name) or name == DEFAULT:
        raise CommandError(f"a profile's name has letters, digits, '-' and '_', and is not {DEFAULT!r}", exit_code=2)
    path = profile_file(os.environ)
    content = read(path) if path.exists() else {}
    profile = dict(_profile(content, name))
    given = {SERVER: bootstrap_server, CONFIG: command_config, OUTPUT: output}
    profile.update({key: str(value) for key, value in given.items() if value is not None})
    servers = checked(path, name, profile).servers
    try:
        parse_bootstrap(servers)
    except ValueError as error:
        raise CommandError(f"--bootstrap-server: {error}; give HOST:PORT,...", exit_code=2) from None
    content[name] = profile
    if default:
        content[DEFAULT] = name
    _write(path, content)
    say(f"Set profile {name} in {path}.", profile=name, file=str(path), default=content.get(DEFAULT) == name)


@command.command("delete")
@click.argument("name")
@output_option
def delete(name: str) -> None:
    """Take the profile NAME out of the file."""
    path = profile_file(os.environ)
    content = read(path)
    if name not in names(content):
        raise CommandError(f"{path} has no profile {name!r}; it has {', '.join(names(content)) or 'none'}")
    del content[name]
    if content.get(DEFAULT) == name:
        del content[DEFAULT]
    _write(path, content)
    say(f"Deleted profile {name} from {path}.", profile=name, file=str(path), deleted=True)


def _profile(content: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = content.get(name, {})
    assert isinstance(found, dict)
    return found


def _write(path: Path, content: Mapping[str, object]) -> None:
    """The file anew, whole or not at all. Raises CommandError."""
    lines = [f"{DEFAULT} = {_text(content[DEFAULT])}"] if DEFAULT in content else []
    for name in names(content):
        lines += [*([""] if lines else []), f"[{_key(name)}]"]
        lines += [f"{key} = {_text(value)}" for key, value in _profile(content, name).items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise CommandError(f"profile file {path}: {error.strerror}") from None


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else _text(name)


def _text(value: object) -> str:
    """A string of TOML; those of JSON are such."""
    return json.dumps(str(value), ensure_ascii=False)
