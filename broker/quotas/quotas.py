"""All quotas of clients of one broker, as `/config/users`, `/config/clients` and `/config/ips` have them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from broker.quotas.client_quota import ClientQuota
from broker.quotas.limits import DEFAULT, Limits
from broker.quotas.own_limits import OwnLimits, load_own_limits
from broker.quotas.rates import Window
from controller.zk import paths

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from timer.clock import Clock
    from timer.metrics import Metrics

logger = logging.getLogger(__name__)

CONNECTION_RATE = "connection_creation_rate"
CALLBACK = "client.quota.callback.class"


class Quotas:
    """The four kinds of quotas of clients, and the rates of connections by address.

    `on_first` is called when the first quota of a client is set: until then nothing is measured. `set_ip_rate` gets an
    address (None: all others) and its rate (None: no longer one). Raises `ConfigError` for a callback class that cannot
    be used.
    """

    def __init__(
        self,
        config: KafkaConfig,
        clock: Clock,
        metrics: Metrics,
        on_first: Callable[[], None],
        set_ip_rate: Callable[[str | None, float | None], None],
    ) -> None:
        window = Window(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000)
        mutations = Window(
            config.get_int("controller.quota.window.num"),
            config.get_int("controller.quota.window.size.seconds") * 1000,
        )
        name = (config.get_optional_str(CALLBACK) or "").strip()
        self._own = load_own_limits(name, config.originals) if name else None
        made = partial(ClientQuota, clock=clock, metrics=metrics)
        self.produce = made("Produce", "byte-rate", window, limits=self._limits("Produce"))
        self.fetch = made("Fetch", "byte-rate", window, limits=self._limits("Fetch"))
        self.request = made(
            "Request", "request-time", window, longest_ms=window.size_ms, limits=self._limits("Request")
        )
        self.mutation = made(
            "ControllerMutation", "mutation-rate", mutations, tokens=True, limits=self._limits("ControllerMutation")
        )
        self._by_key = {
            "producer_byte_rate": self.produce,
            "consumer_byte_rate": self.fetch,
            "request_percentage": self.request,
            "controller_mutation_rate": self.mutation,
        }
        self._on_first = on_first
        self._set_ip_rate = set_ip_rate
        self._addresses: dict[str, str] = {}
        """By the name of an entity: the address that it had when its rate was set."""
        if self._own is not None:
            on_first()

    def close(self) -> None:
        """Let an object of the user's own end what it has."""
        close = getattr(self._own, "close", None)
        if close is not None:
            close()

    def _limits(self, kind: str) -> Limits | None:
        return None if self._own is None else OwnLimits(self._own, kind)

    @property
    def is_active(self) -> bool:
        """Whether there has been any quota of a client."""
        return any(quota.is_active for quota in self._by_key.values())

    def on_user(self, name: str, overrides: Mapping[str, str]) -> None:
        """All overrides of `U` or of `U/clients/C`."""
        user, _, client_id = name.partition(f"/{paths.CLIENT_CONFIG}/")
        self._set(user, client_id or None, overrides)

    def on_client(self, name: str, overrides: Mapping[str, str]) -> None:
        """All overrides of a client id."""
        self._set(None, name, overrides)

    def on_ip(self, name: str, overrides: Mapping[str, str]) -> None:
        """All overrides of an address, or of a name that has one."""
        rate = _number(overrides, CONNECTION_RATE)
        if name == DEFAULT:
            self._set_ip_rate(None, rate)
            return
        address = self._addresses.get(name) or _address_of(paths.desanitize(name))
        if rate is None:
            self._addresses.pop(name, None)
        else:
            self._addresses[name] = address
        self._set_ip_rate(address, rate)

    def _set(self, user: str | None, client_id: str | None, overrides: Mapping[str, str]) -> None:
        was_active = self.is_active
        for key, quota in self._by_key.items():
            quota.set_limit(user, client_id, _number(overrides, key))
        if self.is_active and not was_active:
            self._on_first()


def _address_of(name: str) -> str:
    """As sockets have it: an address may be written in many ways, and a name may stand for one."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        logger.error("the connection rate of %r is not enforced: %s", name, error)
        return name


def _number(overrides: Mapping[str, str], key: str) -> float | None:
    text = overrides.get(key)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        logger.error("a quota in ZooKeeper is no number and is not enforced: %s=%s", key, text)
        return None
