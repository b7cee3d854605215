"""The console of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker.config.keys import ConfigError
from broker.http.console.access import Doorkeeper
from broker.http.console.calls import Calls
from broker.http.console.clients import Clients
from broker.http.console.records.browse import RecordBrowser
from broker.http.console.room import Console, Reader
from network.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.config.kafka_config import KafkaConfig
    from broker.requests.context import BrokerContext
    from controller.zk.payloads import EndPoint


class Parts(Protocol):
    """What the console needs of its broker."""

    config: KafkaConfig
    context: BrokerContext

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
    return Console(
        Doorkeeper(config.get_str("odradek.console.access"), hosts),
        Clients(config, context.clock, parts.client_endpoints),
        Calls(context.workers),
        context.clock,
        context.chance,
        facts,
        posts,
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
