"""Applies dynamic configs as they change in ZooKeeper."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from broker.config.honoured import check_honoured, warnings
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.stored_passwords import StoredPasswords
from controller.zk import paths
from controller.zk.change_listener import ChangeListener
from controller.zk.payloads import decode_config_change
from controller.zk.session import SessionExpiredError

if TYPE_CHECKING:
    from controller.zk.client import ZkClient
    from timer.clock import Clock
    from timer.worker import Workers

logger = logging.getLogger(__name__)

_INVALID = "dynamic broker configs in ZooKeeper are invalid and are ignored: %s"

EntityHandler = Callable[[str, Mapping[str, str]], None]
"""(entity name as in the path, all its overrides)"""


class ConfigListener:
    """Reads the entity that a notification names and hands its full set of overrides to the handler of its type.

    Types: `topics`, `brokers`, `clients`, `users`, `ips`, and, each below a znode of its own, `groups` and
    `client-metrics`; a type without a handler is skipped.
    """

    def __init__(
        self,
        zk: ZkClient,
        handlers: Mapping[str, EntityHandler],
        clock: Clock,
        changes: str = paths.CONFIG_CHANGES,
        workers: Workers | None = None,
    ) -> None:
        self._zk = zk
        self._handlers = handlers
        self._listener = ChangeListener(
            zk, changes, paths.CONFIG_CHANGE_PREFIX, self._on_change, clock, workers, self._reload
        )
        self._applying = threading.Lock()
        self._set: set[str] = set()
        """Entities with overrides, topics left out."""

    def start(self) -> None:
        """Listen first, then load what is there, so that nothing is missed in between."""
        self._listener.start()
        for entity_path in self._entities(self._handlers):
            self._apply(entity_path)

    def _entities(self, entity_types: Iterable[str]) -> Iterator[str]:
        for entity_type in entity_types:
            for name in self._zk.config_entities(entity_type):
                yield f"{entity_type}/{name}"
                if entity_type == paths.USER_CONFIG:
                    nested = self._zk.children(paths.config_entity(f"{entity_type}/{name}/clients"), watch=False)
                    for client in nested:
                        yield f"{entity_type}/{name}/clients/{client}"

    def _reload(self) -> None:
        """Notifications may have been removed while there was no session, of a password that is good no more, say.
        Topics are not read again: there may be very many, and no safety rests on theirs."""
        found = self._entities(each for each in self._handlers if each != paths.TOPIC_CONFIG)
        for entity_path in sorted(self._set.union(found)):
            self._apply_again(entity_path)

    def _apply_again(self, entity_path: str) -> None:
        try:
            self._apply(entity_path)
        except SessionExpiredError:
            raise
        except Exception:
            logger.exception("Could not read the configs of %s again", entity_path)

    def close(self) -> None:
        self._listener.close()

    def _on_change(self, data: bytes) -> None:
        entity_path = decode_config_change(data)
        if entity_path is not None:
            self._apply(entity_path)

    def _apply(self, entity_path: str) -> None:
        entity_type, _, name = entity_path.partition("/")
        handler = self._handlers.get(entity_type)
        if handler is None:
            return
        with self._applying:  # else what was read first could be applied last
            overrides = self._zk.config(entity_path)
            handler(name, overrides)
            if entity_type != paths.TOPIC_CONFIG:
                (self._set.add if overrides else self._set.discard)(entity_path)


class DynamicBrokerConfig:
    """Lays the dynamic values of `brokers/<default>` and `brokers/N` over the static ones and tells who cares.

    Invalid entries in ZooKeeper are logged and ignored, as are passwords that cannot be decoded; at the start those
    that cannot be honoured and on which safety rests end it.
    """

    def __init__(self, config: KafkaConfig, passwords: StoredPasswords) -> None:
        self._config = config
        self._passwords = passwords
        self._broker: dict[str, str] = {}
        self._default: dict[str, str] = {}
        self._reconfigurables: list[Callable[[Mapping[str, tuple[object, object]]], None]] = []
        self.on_every_change: list[Callable[[], None]] = []
        """Called at each notification, changed values or not: a key store of the same name may hold another key."""

    def add(self, reconfigurable: Callable[[Mapping[str, tuple[object, object]]], None]) -> None:
        """`reconfigurable` gets what changed, as name to (old, new)."""
        self._reconfigurables.append(reconfigurable)

    def load(self, zk: ZkClient) -> None:
        """Before the sockets are bound, for listeners may have been set too. Raises `ConfigError`."""
        self._default = self._passwords.readable(zk.config("brokers/<default>"), per_broker=False)
        self._broker = self._passwords.readable(zk.config(f"brokers/{self._config.broker_id}"))
        for name, text in (*self._default.items(), *self._broker.items()):
            check_honoured(name, text)
        self._use()
        self._config.resolve_listeners()

    def on_change(self, name: str, overrides: Mapping[str, str]) -> None:
        if name == "<default>":
            self._default = self._passwords.readable(overrides, per_broker=False)
        elif name == str(self._config.broker_id):
            self._broker = self._passwords.readable(overrides)
        else:
            return
        self._use()
        for call in self.on_every_change:
            try:
                call()
            except Exception:
                logger.exception("applying dynamic configs failed")

    def _use(self) -> None:
        try:
            changed = self._config.use_dynamic(self._broker, self._default)
        except ConfigError as error:
            logger.error(_INVALID, error)
            return
        if changed:
            for line in warnings({**self._default, **self._broker}):
                logger.warning("%s", line)
            logger.info("dynamic configs changed: %s", ", ".join(sorted(changed)))
            for reconfigurable in self._reconfigurables:
                try:
                    reconfigurable(changed)
                except Exception:
                    logger.exception("applying dynamic configs failed")
