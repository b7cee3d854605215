"""The options and the client that all commands share that talk to a running cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.cli.cures import CURES, unreachable
from broker.cli.errors import CommandError
from broker.cli.output import output_option, prefer
from broker.cli.profiles import SERVERS, Found, find
from log.files.properties_text import parse_properties
from network.client.cluster_client import ClusterClient
from network.client.connection import SocketWrapper
from network.client.connection_pool import UnsupportedVersion
from network.client.security import client_security
from network.protocol.errors import ApiError, ErrorCode, ProtocolError
from timer.clock import SystemClock

F = TypeVar("F", bound=Callable[..., Any])

CLIENT_ID = "odradek-cli"
_COMMAND_CONFIG = "odradek.command-config"
# Of the cluster that was found where none was named.
_FOUND_CONFIG = "odradek.found-config"
_PROFILE = "odradek.profile"
_TIMEOUT = "odradek.request.timeout.ms"
# Errors that the client, too, gives the name alone of.
_NAMED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
# `topics create`, then the next command: a broker that is busy hears of the topic late.
TOPIC_PATIENCE_MS = 3_000


def bootstrap_option(function: F) -> F:
    """`servers_option`, and the options of `output`."""
    return output_option(servers_option(function))


def servers_option(function: F) -> F:
    """``--bootstrap-server host:port[,host:port]``, else what `profiles` says; with it goes ``--command-config FILE``.

    Every command that talks to a cluster gets its address here and its client from `cluster`, which finds the rest in
    the context.
    """
    function = click.option(
        "--profile",
        metavar="NAME",
        expose_value=False,
        is_eager=True,
        callback=_remember(_PROFILE),
        help="A cluster of the profile file, instead of --bootstrap-server.",
    )(function)
    function = click.option(
        "--request-timeout-ms",
        type=click.IntRange(1),
        default=15_000,
        show_default=True,
        metavar="MS",
        expose_value=False,
        callback=_remember(_TIMEOUT),
        help="How long brokers have for an answer, and are tried again.",
    )(function)
    function = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="ODRADEK_COMMAND_CONFIG",
        expose_value=False,
        callback=_remember_config,
        help="Properties file with the keys of Kafka's Java clients: security.protocol, sasl.mechanism, "
        "sasl.jaas.config.",
    )(function)
    return click.option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        callback=_address,
        help=f"Brokers to start from.  [default: {SERVERS}, the profile file, the running `odradek dev`]",
    )(function)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps an option for `cluster`."""

    def remember(context: click.Context, _: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return remember


def _remember_config(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    """The file of the line counts more than that of a profile, and that of the environment less."""
    said = context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
    context.meta[_COMMAND_CONFIG] = (file, said)


def _address(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if context.resilient_parsing:  # a shell completes the line
        return value
    profile: str | None = context.meta.get(_PROFILE)
    if value and profile:
        raise CommandError("--bootstrap-server and --profile exclude each other", exit_code=2)
    if value:
        return value
    found = find(profile)
    context.meta[_FOUND_CONFIG] = found
    if found.output is not None:
        prefer(context, found.output)
    return found.servers


@contextlib.contextmanager
def cluster(servers: str) -> Iterator[ClusterClient]:
    """A client; failures inside the block become a CommandError."""
    wrap = command_security()
    try:
        client = ClusterClient(
            servers,
            CLIENT_ID,
            SystemClock(),
            request_timeout_ms=click.get_current_context().meta[_TIMEOUT],
            topic_patience_ms=TOPIC_PATIENCE_MS,
            wrap=wrap,
        )
    except ValueError as error:
        raise CommandError(f"--bootstrap-server: {error}; give HOST:PORT,...", exit_code=2) from None
    with client:
        try:
            yield client
        except ApiError as error:
            raise CommandError(describe(error.code, error.message)) from None
        except UnsupportedVersion as error:
            raise CommandError(f"{error}; {CURES[ErrorCode.UNSUPPORTED_VERSION]}") from None
        except (OSError, ProtocolError) as error:
            raise CommandError(unreachable(servers, error)) from None


def command_security() -> SocketWrapper | None:
    """What the file of ``--command-config`` asks for, else that of the profile, the environment or the running
    `odradek dev`. Raises CommandError."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    own, said = meta.get(_COMMAND_CONFIG, (None, False))
    found: Found = meta.get(_FOUND_CONFIG, Found(""))
    file = own if said or (found.profile is None and own is not None) else found.command_config or own
    if file is None:
        return None
    try:
        properties = parse_properties(file.read_text(encoding="utf-8"))
        return client_security({"client.id": CLIENT_ID, **properties}, SystemClock())
    except (OSError, ValueError) as error:
        where = "--command-config" if file is own else "command-config"
        raise CommandError(f"{where} {file}: {error}", exit_code=2) from None


def describe(code: int, message: str | None) -> str:
    """An error code, its text, and what can be done about it."""
    error = ErrorCode.of(code)
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # Brokers give a text that names nothing, the client the name alone.
        if not message or message == error.message:
            message = "there is no such topic or partition"
        elif " " not in message:
            message = f"there is no topic or partition {message}"
    if error in _NAMED and message and " " not in message:
        message = f"{error.message} {message}"
    cure = f"; {CURES[error]}" if error in CURES else ""
    if error is ErrorCode.INVALID_TOPIC_EXCEPTION and message and "collides" in message:
        cure = "; '.' and '_' count as the same: choose another name"
    return f"{message or error.message} ({error.name}){cure}"
