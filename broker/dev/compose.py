"""``python -m broker.dev.compose``: security of the cluster in containers, as `odradek dev --secure` has it.

`files` makes what brokers and clients need in ``/security``, before there is a broker: for the containers, and in
``/security/host`` the same for clients on the host. `users` makes the users when all brokers serve. Both may run again.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.dev.client_access import ClientFiles
from broker.dev.private_files import write_private
from broker.dev.security import BROKER, DevSecurity, prepare
from broker.dev.users import make_missing
from log.files.properties_text import format_properties
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from timer.clock import SystemClock

_PROTOCOL = "SASL_SSL"
_BROKERS = 3
_LISTENERS = ("INTERNAL", "EXTERNAL")
_INSIDE = ",".join(f"broker-{number}:19092" for number in range(_BROKERS))
_TIMEOUT_MS = 60_000


@click.group()
def main() -> None:
    """Files and users of a secured cluster in containers."""


@main.command()
@click.option("--root", default="/", type=click.Path(path_type=Path), help="Where the directory `security` is.")
@click.option("--host-bootstrap", required=True, help="The brokers' addresses for clients on the host.")
@click.option("--host-directory", required=True, help="Where the files for clients will be on the host.")
def files(root: Path, host_bootstrap: str, host_directory: str) -> None:
    """Make what is missing."""
    security = _prepare(root)
    for number in range(_BROKERS):
        settings = security.broker_settings(number, _LISTENERS)
        text = format_properties(settings, "of odradek")
        write_private(security.directory / f"broker-{number}.properties", text.encode("latin-1"))
    security.files(BROKER).write(security.access(BROKER, _INSIDE))
    host = security.directory / "host"
    host.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(security.directory / "ca.pem", host)
    there = replace(security, directory=Path(host_directory))
    for name in security.names:
        ClientFiles(host, name).write(there.access(name, host_bootstrap))


@main.command()
@click.option("--root", default="/", type=click.Path(path_type=Path))
def users(root: Path) -> None:
    """Make those who are missing."""
    clock = SystemClock()
    security = _prepare(root)
    wrap = security.wrapper(BROKER, clock)
    try:
        with ClusterClient(_INSIDE, "odradek-compose", clock, request_timeout_ms=_TIMEOUT_MS, wrap=wrap) as client:
            made = make_missing(client, security)
    except (CommandError, OSError, ApiError) as error:
        sys.exit(f"odradek: the users cannot be made: {error}")
    click.echo(f"made: {', '.join(made) or 'none was missing'}")


def _prepare(root: Path) -> DevSecurity:
    try:
        return prepare(_PROTOCOL, root, _BROKERS, _INSIDE, SystemClock())
    except CommandError as error:
        sys.exit(f"odradek: {error}")


if __name__ == "__main__":
    main()
