"""Which cluster a command talks to, where `--bootstrap-server` does not say it.

The first of these that says something: ``--profile``, the variable ODRADEK_BOOTSTRAP_SERVERS, the variable
ODRADEK_PROFILE, the `default` of the profile file, the one `odradek dev` that runs. The profile file is the one that
ODRADEK_PROFILES names, else ``odradek/profiles.toml`` in the user's configuration directory:

    default = "staging"

    [staging]
    bootstrap-server = "kafka-1:9092,kafka-2:9092"
    command-config = "staging.properties"
    output = "json"

A relative path is seen from the profile file; `output` is the form where neither --output nor --json says one.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.errors import CommandError
from broker.cli.output import FORMS

SERVERS = "ODRADEK_BOOTSTRAP_SERVERS"
# What it was called before; the plural is the one to use.
OLD_SERVERS = "ODRADEK_BOOTSTRAP_SERVER"
PROFILE = "ODRADEK_PROFILE"
FILE = "ODRADEK_PROFILES"
DEFAULT = "default"
SERVER, CONFIG, OUTPUT = _KEYS = ("bootstrap-server", "command-config", "output")


class Found(NamedTuple):
    """A cluster: its brokers' addresses, and the file that says how to log in where that is known.

    Of a profile also its name, and the form of what commands show.
    """

    servers: str
    command_config: Path | None = None
    profile: str | None = None
    output: str | None = None


def bootstrap_server(profile: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The addresses of `find`."""
    return find(profile, environment).servers


def find(profile: str | None, environment: Mapping[str, str] = os.environ) -> Found:
    """The cluster of the profile, the environment, the profile file or the running `odradek dev`; what was not said by
    the caller is told on standard error. Raises CommandError, exit code 2."""
    if profile is not None:
        return _of_profile(profile, "--profile", environment)
    for name in (SERVERS, OLD_SERVERS):
        if environment.get(name):
            return Found(environment[name])
    if environment.get(PROFILE):
        return _of_profile(environment[PROFILE], PROFILE, environment)
    path = profile_file(environment)
    if path.exists():
        default = read(path).get(DEFAULT)
        if isinstance(default, str):
            return _of_profile(default, f"the default of {path}", environment)
    return of_the_running_cluster()


def profile_file(environment: Mapping[str, str]) -> Path:
    """Where profiles are looked for."""
    if environment.get(FILE):
        return Path(environment[FILE])
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "odradek" / "profiles.toml"


def of_the_running_cluster() -> Found:
    """The one `odradek dev` that runs, its address said on standard error. Raises CommandError."""
    from broker.dev.running import running_clusters

    clusters = running_clusters()
    if not clusters:
        raise CommandError("no `odradek dev` runs: start one, or name brokers with --bootstrap-server", exit_code=2)
    if len(clusters) > 1:
        raise CommandError(
            "several `odradek dev` run: choose with --bootstrap-server "
            + " or ".join(cluster.bootstrap for cluster in clusters),
            exit_code=2,
        )
    cluster = clusters[0]
    click.echo(f"odradek: using the cluster of `odradek dev` at {cluster.bootstrap}", err=True)
    return Found(cluster.bootstrap, Path(cluster.client_config) if cluster.client_config else None)


def _of_profile(name: str, said_by: str, environment: Mapping[str, str]) -> Found:
    path = profile_file(environment)
    content = read(path)
    profile = content.get(name)
    if not isinstance(profile, dict):
        known = ", ".join(names(content)) or "none"
        raise CommandError(f"{path} has no profile {name!r} ({said_by}); it has {known}", exit_code=2)
    found = checked(path, name, profile)
    click.echo(f"odradek: using profile {name} at {found.servers}", err=True)
    return found


def names(content: Mapping[str, object]) -> list[str]:
    """The profiles of a file's content, sorted."""
    return sorted(key for key, value in content.items() if isinstance(value, dict))


def checked(path: Path, name: str, profile: Mapping[str, object]) -> Found:
    """What a profile of the file says. Raises CommandError."""
    unknown = sorted(profile.keys() - set(_KEYS))
    if unknown:
        raise CommandError(
            f"{path}: profile {name!r} has {unknown[0]!r}, which is not known; a profile has {', '.join(_KEYS)}",
            exit_code=2,
        )
    servers, config, output = (profile.get(key) for key in _KEYS)
    if not isinstance(servers, str) or not servers:
        raise CommandError(f'{path}: profile {name!r} needs bootstrap-server = "host:port,..."', exit_code=2)
    if config is not None and not isinstance(config, str):
        raise CommandError(f"{path}: command-config of profile {name!r} is no path in quotes", exit_code=2)
    if output is not None and output not in FORMS:
        raise CommandError(f"{path}: output of profile {name!r} is none of {', '.join(FORMS)}", exit_code=2)
    file = None if config is None else path.parent / Path(config).expanduser()
    return Found(servers, file, name, str(output) if output is not None else None)


def read(path: Path) -> dict[str, object]:
    """The content of a profile file. Raises CommandError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"profile file {path}: {error.strerror}; {FILE} names another", exit_code=2) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"profile file {path} is not TOML: {error}", exit_code=2) from None
