"""TLS on the way to ZooKeeper: `zookeeper.ssl.*`, and the system properties of ZooKeeper's client that they stand for.

A key that is not set has the value of `-Dzookeeper....` among `KAFKA_OPTS`, as for Kafka: who secures the connection
that way does not get one in plain text. A store's type is told by the end of its name where it is not said. The
password of a PEM store is that of its key.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import ConfigError, parse_value
from broker.security.sasl.jaas_sources import java_property
from network.tls.settings import TlsSettings, is_current, read_settings
from network.tls.stores import TlsConfigError

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig

logger = logging.getLogger(__name__)

_ENABLE: Final = "zookeeper.ssl.client.enable"
_SOCKET: Final = "zookeeper.clientCnxnSocket"
_KEY_STORE: Final = "zookeeper.ssl.keystore.location"
_IDENTIFICATION: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_SYSTEM_PROPERTIES: Final = {
    _ENABLE: "zookeeper.client.secure",
    _SOCKET: "zookeeper.clientCnxnSocket",
    _KEY_STORE: "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    _IDENTIFICATION: "zookeeper.ssl.hostnameVerification",
}
_TYPES_BY_ENDING: Final = {".jks": "JKS", ".p12": "PKCS12", ".pem": "PEM"}


class ZooKeeperTls:
    """Gives the context for the next connection: new files are read, and as long as they make no sense the old ones
    hold, with an error in the log."""

    def __init__(self, value: Callable[[str], Any], *, authenticates: bool) -> None:
        """`value` gives the value of an `ssl.` key. Raises `TlsConfigError`."""
        self._value = value
        self.authenticates = authenticates
        """Whether ZooKeeper is shown a certificate, by which it knows who makes a znode."""
        self._settings, self._context = self._read()

    def __call__(self) -> ssl.SSLContext:
        try:
            if not is_current(self._settings, self._value):
                self._settings, self._context = self._read()
        except TlsConfigError as error:
            logger.error("New stores for the connection to ZooKeeper cannot be used, the old ones stay: %s", error)
        return self._context

    def _read(self) -> tuple[TlsSettings, ssl.SSLContext]:
        settings = read_settings(self._value)
        return settings, settings.client_context()


def zookeeper_tls(config: KafkaConfig, environment: Mapping[str, str] | None = None) -> ZooKeeperTls | None:
    """None where the connection is to be in plain text. Raises `ConfigError`, naming the key."""
    values = _values(config, os.environ if environment is None else environment)
    if not values[_ENABLE]:
        for name in sorted(config.originals):
            if name.startswith("zookeeper.ssl.") and name != _ENABLE:
                logger.warning("%s has no effect without %s", name, _ENABLE)
        return None
    if values[_SOCKET] not in (None, _NETTY):
        raise ConfigError(f"{_ENABLE} needs {_SOCKET}={_NETTY}, not {values[_SOCKET]}")
    authenticates = values[_SOCKET] == _NETTY and values[_KEY_STORE] is not None
    try:
        return ZooKeeperTls(_settings(values).get, authenticates=authenticates)
    except TlsConfigError as error:
        text = str(error)
        raise ConfigError(f"zookeeper.{text}" if text.startswith("ssl.") else f"zookeeper.ssl: {text}") from None


def _values(config: KafkaConfig, environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, java_name in _SYSTEM_PROPERTIES.items():
        given = None if name in config.originals else java_property(environment, java_name)
        if given is not None and name == _IDENTIFICATION:
            given = "HTTPS" if given.strip().lower() == "true" else ""
        values[name] = config[name] if given is None else parse_value(BROKER_KEYS[name], given)
    return values


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """By the names that the keys have on listeners."""
    settings = {
        "ssl.endpoint.identification.algorithm": values[_IDENTIFICATION] or "",
        "ssl.enabled.protocols": values["zookeeper.ssl.enabled.protocols"] or [values["zookeeper.ssl.protocol"]],
        "ssl.cipher.suites": values["zookeeper.ssl.cipher.suites"],
    }
    for store in ("keystore", "truststore"):
        location, password, kind = (
            values[f"zookeeper.ssl.{store}.{part}"] for part in ("location", "password", "type")
        )
        if location is None:
            continue
        kind = (kind or _type_by_name(store, location)).upper()
        settings |= {f"ssl.{store}.location": location, f"ssl.{store}.type": kind}
        if kind != "PEM":
            settings[f"ssl.{store}.password"] = password
        elif store == "keystore":
            settings["ssl.key.password"] = password
    return settings


def _type_by_name(store: str, location: str) -> str:
    for ending, kind in _TYPES_BY_ENDING.items():
        if location.endswith(ending):
            return kind
    raise TlsConfigError(f"ssl.{store}.type is not set, and {location} does not end in .jks, .p12 or .pem")
