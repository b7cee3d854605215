"""The console of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker.config.keys import ConfigError
from broker.http.console.access import Doorkeeper
from broker.http.console.api.changes import CHANGES
from broker.http.console.calls import Calls
from broker.http.console.clients import Clients
from broker.http.console.internals.controller_trail import ControllerTrail
from broker.http.console.internals.sampling import Sampler, Sources
from broker.http.console.internals.stream import Internals
from broker.http.console.records.browse import RecordBrowser
from broker.http.console.room import Console, Reader
from network.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.config.kafka_config import KafkaConfig
    from broker.http.console.internals.requests import RequestWatch
    from broker.requests.context import BrokerContext
    from controller.controller import Controller
    from controller.zk.payloads import EndPoint
    from network.server.socket_server import SocketServer


class Parts(Protocol):
    """What the console needs of its broker; all but the first three are there once it has client endpoints."""

    config: KafkaConfig
    context: BrokerContext
    request_watch: RequestWatch
    socket_server: SocketServer
    controller: Controller

    def client_endpoints(self) -> Sequence[EndPoint]: ...


def make_console(parts: Parts) -> Console:
    """The broker need not serve yet. Raises `ConfigError` for keys that make no sense."""
    config, context = parts.config, parts.context
    hosts = [config.get_str("odradek.http.host"), *config["odradek.console.hosts"]]
    try:
        others = dict(peers(config["odradek.console.peers"]))
    except ValueError as error:
        raise ConfigError(f"odradek.console.peers: {error}") from None
    listener = config["odradek.console.listener"]
    if listener is not None and listener.upper() not in {each.listener_name for each in config.advertised_listeners}:
        raise ConfigError(f"odradek.console.listener: {listener} is none of the advertised listeners")
    writes = config.get_bool("odradek.console.write")

    def facts() -> dict[str, Any]:
        return {"broker": config.broker_id, "version": VERSION, "write": writes, "peers": others}

    posts: dict[str, Reader] = {"records": RecordBrowser(context.clock).browse}
    if writes:
        posts |= CHANGES
    console = Console(
        Doorkeeper(config.get_str("odradek.console.access"), hosts),
        Clients(config, context.clock, parts.client_endpoints),
        Calls(context.workers),
        context.clock,
        context.chance,
        facts,
        posts,
    )
    internals = Internals(console, lambda: _sampler(parts), context.clock)
    console.add("internals", internals.handle)
    console.add("internals-allowed", internals.allowed)
    return console


def _sampler(parts: Parts) -> Sampler | None:
    if not parts.client_endpoints():
        return None
    context = parts.context
    delayed = context.replica_manager.delayed
    purgatories = (
        delayed.produce,
        delayed.fetch,
        delayed.delete_records,
        delayed.elect_leader,
        *context.group_coordinator.purgatories,
        context.topic_admin.purgatory,
    )
    return Sampler(
        Sources(
            context.clock,
            context.metrics,
            parts.socket_server,
            context.replica_manager,
            purgatories,
            ControllerTrail(parts.controller, context.clock),
            parts.request_watch,
        )
    )


def peers(items: Sequence[str]) -> list[tuple[int, str]]:
    """`ID=URL` items: where the consoles of other brokers are. Raises ValueError."""
    found = []
    for item in items:
        number, _, url = item.partition("=")
        if not number.strip().isdigit() or not url.strip().startswith(("http://", "https://")):
            raise ValueError(f"{item!r} is not ID=URL")
        found.append((int(number), url.strip()))
    return found
