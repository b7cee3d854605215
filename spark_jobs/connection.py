"""How driver and executors get into the cluster: `kafka.bootstrap.servers`, and the options that secure a connection.

The options travel to the executors, files do not: what `kafka.ssl.*.location` names must be on every machine, as for
the connector. Nothing here shows a value of an option, because options are passwords.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from network.client.cluster_client import ClusterClient
from network.client.security import ClientSecurity
from spark_jobs.option_table import OptionError
from timer.clock import SystemClock

if TYPE_CHECKING:
    from network.client.connection import SocketWrapper
    from timer.clock import Clock

BOOTSTRAP = "kafka.bootstrap.servers"
CLIENT_ID = "odradek-spark"
_PREFIX = "kafka."
_OF_CONNECTIONS = (BOOTSTRAP, "kafka.client.id", "kafka.security.protocol", "kafka.sasl.", "kafka.ssl.")


def client_security_of(given: Mapping[str, str]) -> ClientSecurity:
    """How connections are secured, of lower-cased options. Raises OptionError, without secrets."""
    properties = {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}
    try:
        return ClientSecurity.of(properties, SystemClock())
    except ValueError as error:
        raise _told(error) from None


def socket_wrapper(security: ClientSecurity, clock: Clock) -> SocketWrapper | None:
    """What is done to each connected socket, where the connection is made; None for plain text. Raises OptionError,
    which names the machine, for a file that is not there."""
    try:
        return security.wrapper(clock)
    except ValueError as error:
        raise _told(error) from None


def _told(error: ValueError) -> OptionError:
    text = f"option kafka.{error}"
    if ".location: " in text:
        text += f" (on {socket.gethostname()}: driver and executors each read their own files)"
    return OptionError(text)


def required_bootstrap(given: Mapping[str, str]) -> str:
    """The bootstrap servers of lower-cased options. Raises OptionError."""
    servers = given.get(BOOTSTRAP, "").strip()
    if not servers:
        raise OptionError(f"option {BOOTSTRAP} is missing: give host:port[,host:port...]")
    return servers


def connection_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a source's or a sink's options that say which cluster and how to get into it: good for the other."""
    return {name: value for name, value in options.items() if name.lower().startswith(_OF_CONNECTIONS)}


def open_cluster(options: Mapping[str, str]) -> ClusterClient:
    """A client of that cluster, for what a job asks beside reading and writing. Raises OptionError."""
    given = {name.lower(): value for name, value in options.items()}
    clock = SystemClock()
    wrap = socket_wrapper(client_security_of(given), clock)
    return ClusterClient(required_bootstrap(given), CLIENT_ID, clock, wrap=wrap)
