"""The option and the client that all commands share that talk to a running cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.cli.errors import CommandError
from log.files.properties_text import parse_properties
from network.client.cluster_client import ClusterClient
from network.client.connection import SocketWrapper
from network.client.security import client_security
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import SystemClock

F = TypeVar("F", bound=Callable[..., Any])

CLIENT_ID = "odradek-cli"
_COMMAND_CONFIG = "odradek.command-config"
# `topics create`, then the next command: a broker that is busy hears of the topic late.
TOPIC_PATIENCE_MS = 3_000


def bootstrap_option(function: F) -> F:
    """``--bootstrap-server host:port[,host:port]``, also from ODRADEK_BOOTSTRAP_SERVER; without either the brokers of
    the `odradek dev` that runs, and of nothing else that happens to listen on its port. With it goes
    ``--command-config FILE``, which `cluster` finds in the context."""
    secured = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="ODRADEK_COMMAND_CONFIG",
        expose_value=False,
        callback=lambda context, _parameter, value: context.meta.__setitem__(_COMMAND_CONFIG, value),
        help="Properties file with the keys of Kafka's Java clients: security.protocol, sasl.mechanism, "
        "sasl.jaas.config.",
    )
    return secured(_bootstrap(function))


def _bootstrap(function: F) -> F:
    return click.option(
        "--bootstrap-server",
        "-b",
        callback=lambda _context, _parameter, value: value or of_the_running_cluster(),
        envvar="ODRADEK_BOOTSTRAP_SERVER",
        help="Brokers to start from, host:port separated by commas.  [default: the running `odradek dev`]",
    )(function)


def of_the_running_cluster() -> str:
    """The address of the one `odradek dev` that runs, said on standard error. Raises CommandError."""
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
    click.echo(f"odradek: using the cluster of `odradek dev` at {clusters[0].bootstrap}", err=True)
    return clusters[0].bootstrap


@contextlib.contextmanager
def cluster(bootstrap_server: str) -> Iterator[ClusterClient]:
    """A client; failures inside the block become a CommandError."""
    wrap = command_security()
    try:
        client = ClusterClient(
            bootstrap_server,
            CLIENT_ID,
            SystemClock(),
            request_timeout_ms=15_000,
            topic_patience_ms=TOPIC_PATIENCE_MS,
            wrap=wrap,
        )
    except ValueError as error:
        raise CommandError(f"--bootstrap-server: {error}") from None
    with client:
        try:
            yield client
        except ApiError as error:
            raise CommandError(describe(error.code, error.message)) from None
        except OSError as error:
            raise CommandError(f"{bootstrap_server}: {error}") from None


def command_security() -> SocketWrapper | None:
    """What the file of ``--command-config`` asks for. Raises CommandError."""
    context = click.get_current_context(silent=True)
    file = None if context is None else context.meta.get(_COMMAND_CONFIG)
    if file is None:
        return None
    try:
        properties = parse_properties(file.read_text(encoding="utf-8"))
        return client_security({"client.id": CLIENT_ID, **properties}, SystemClock())
    except (OSError, ValueError) as error:
        raise CommandError(f"--command-config {file}: {error}", exit_code=2) from None


def describe(code: int, message: str | None) -> str:
    """An error code and its text for a person."""
    error = ErrorCode.of(code)
    return f"{message or error.message} ({error.name})"
