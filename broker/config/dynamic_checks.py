"""What may be changed of a broker while it runs: the checks of dynamic configs, in Kafka's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker.config.broker_keys import BROKER_KEYS
from broker.config.cross_checks import synonym_ms
from broker.config.honoured import (
    NOT_HONOURED,
    OWN_LISTENER_KEYS,
    TLS_LISTENER_KEYS,
    check_honoured,
    plain_name,
)
from broker.config.keys import ConfigError, UpdateMode, parse_value
from broker.config.listener_values import Levels, ListenerValues, Proposed
from broker.config.listeners import TLS_PROTOCOLS, Endpoint
from network.oauth.keys import HANDLER as LOGIN_HANDLER
from network.oauth.keys import REFRESH_KEYS
from network.oauth.keys import URL as TOKEN_URL
from network.tls.settings import check_replaceable, read_settings
from network.tls.stores import TlsConfigError

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig

LISTENER_KEYS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
"""Keys that say which listeners there are."""

OF_NEW_LISTENERS = ("sasl.enabled.mechanisms", "sasl.kerberos.principal.to.local.rules")
"""Keys that listeners are made with: new values are for those added from then on, as in Kafka, and for all from
the next start."""

OF_LOGINS = ("sasl.mechanism.inter.broker.protocol", *REFRESH_KEYS)
"""Keys that this broker logs in to others by: new values are for connections that are made from then on."""

OF_BOTH = ("sasl.jaas.config", "sasl.kerberos.service.name")

CheckListener = Callable[[Endpoint, Levels, bool], None]
"""Whether a listener could be added with these values, and, if asked to, whether its port can be had. Raises
`ConfigError`."""

_THREAD_COUNTS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_ONLY_OF_LISTENERS = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
_LOADED_CLASSES = ("metric.reporters",)
"""Lists of classes: there are none to load."""
_HANDLERS = ("sasl.client.callback.handler.class", LOGIN_HANDLER, "sasl.server.callback.handler.class")
_URLS = ("sasl.oauthbearer.jwks.endpoint.url", TOKEN_URL)


def validate_own(
    before: Mapping[str, str], overrides: Mapping[str, str], config: KafkaConfig, check_listener: CheckListener
) -> None:
    """Check all dynamic overrides of this broker, which shall take the place of `before`. Raises `ConfigError`."""
    own = _checked(overrides, per_broker=True)
    _check_reach(overrides, config)
    values = config.merged(overrides, config.dynamic_default)
    _check_listeners(before, overrides, values, config, check_listener)
    _check_tls(overrides, values, config)
    _check_values(values, own, config)


def validate_default(overrides: Mapping[str, str], config: KafkaConfig) -> None:
    """The same for the overrides of all brokers."""
    own = _checked(overrides, per_broker=False)
    _check_values(config.merged(config.dynamic_broker, overrides), own, config)


def _checked(overrides: Mapping[str, str], *, per_broker: bool) -> dict[str, Any]:
    """The values of broker keys among them, if each may be changed while a broker runs."""
    _refuse(
        "Cannot update these configs dynamically",
        (name for name in overrides if name in BROKER_KEYS and BROKER_KEYS[name].mode is UpdateMode.READ_ONLY),
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in overrides if name in _ONLY_OF_LISTENERS),
    )
    own = {name: _parsed(name, text) for name, text in overrides.items() if plain_name(name) in BROKER_KEYS}
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in overrides if _is_of_one_broker(name)),
        )
    for name, text in overrides.items():
        check_honoured(name, text)
        if name in _LOADED_CLASSES and own[name] != parse_value(BROKER_KEYS[name], BROKER_KEYS[name].default):
            raise ConfigError(f"{name}: {NOT_HONOURED[name].instead}")
    return own


def _check_reach(overrides: Mapping[str, str], config: KafkaConfig) -> None:
    """Who may change configs need not have a say in what code a broker runs and whom it asks: that is the file's."""
    for name, text in overrides.items():
        plain = plain_name(name)
        if (plain in _URLS or (plain in _HANDLERS and ":" in text)) and text != config.originals.get(name):
            raise ConfigError(f"{name} can only be set in the broker's file")


def _check_values(values: Mapping[str, Any], own: Mapping[str, Any], config: KafkaConfig) -> None:
    _check_threads(values, own, config)
    _check_limits(values, own)
    _check_local_retention(values)


def _refuse(why: str, names: Iterable[str]) -> None:
    found = ", ".join(names)
    if found:
        raise ConfigError(f"{why}: Set({found})")


def _parsed(name: str, text: str) -> Any:
    return parse_value(BROKER_KEYS[plain_name(name)], text)


def _is_of_one_broker(name: str) -> bool:
    plain = plain_name(name)
    if plain != name or name.startswith("listener.name."):
        return plain not in OWN_LISTENER_KEYS
    return name in BROKER_KEYS and BROKER_KEYS[name].mode is UpdateMode.PER_BROKER


def _check_listeners(
    before: Mapping[str, str],
    overrides: Mapping[str, str],
    values: Mapping[str, Any],
    config: KafkaConfig,
    check_listener: CheckListener,
) -> None:
    """Listeners may come, if they can be served, and go, but for the brokers' own.

    What was asked for `before` is there, or on its way, whatever this broker has made of it so far.
    """
    if all(before.get(name) == overrides.get(name) for name in LISTENER_KEYS):
        return
    new = config.with_listeners(_of_listeners(overrides))
    try:
        there = config.with_listeners(_of_listeners(before)).listeners
    except ConfigError:  # somebody wrote it past the brokers
        there = config.listeners
    standing = {endpoint.listener_name: endpoint for endpoint in there}
    stay = {endpoint.listener_name for endpoint in new.listeners}
    freed = {endpoint.port for endpoint in (*there, *config.listeners) if endpoint.listener_name not in stay}
    for endpoint in new.listeners:
        known = standing.get(endpoint.listener_name)
        if known is None:
            check_listener(endpoint, Proposed(config, overrides, values), endpoint.port not in freed)
        else:
            _check_standing(known, endpoint)
            if _made_with(known, before, config) != _made_with(known, overrides, config):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener {known.listener_name}, "
                    "restart broker or create a new listener for update"
                )


def _of_listeners(overrides: Mapping[str, str]) -> dict[str, str]:
    return {name: overrides[name] for name in LISTENER_KEYS if name in overrides}


def _check_standing(known: Endpoint, new: Endpoint) -> None:
    """A listener that is there changes neither its protocol nor its address (which Kafka takes, and goes on at the old
    one)."""
    if known.security_protocol != new.security_protocol:
        raise ConfigError(
            f"Security protocol cannot be updated for existing listener {new.listener_name}: "
            f"{known.security_protocol} to {new.security_protocol}"
        )
    if (known.host, known.port) != (new.host, new.port):
        raise ConfigError(f"listener {known} keeps its address while this broker runs: add another to move clients")


def _made_with(endpoint: Endpoint, broker: Mapping[str, str], config: KafkaConfig) -> dict[str, str]:
    """The listener's own values that do not change while it is served."""
    prefix = f"listener.name.{endpoint.listener_name.lower()}."
    levels = {**config.originals, **config.dynamic_default, **broker}
    changeable = OWN_LISTENER_KEYS | TLS_LISTENER_KEYS
    return {
        name: text
        for name, text in levels.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in changeable
    }


def _check_tls(overrides: Mapping[str, str], values: Mapping[str, Any], config: KafkaConfig) -> None:
    """New key stores and trust stores of a listener can be used."""
    for endpoint in config.listeners:
        prefix = f"listener.name.{endpoint.listener_name.lower()}.ssl."
        if endpoint.security_protocol not in TLS_PROTOCOLS or not any(name.startswith(prefix) for name in overrides):
            continue
        current = ListenerValues(config, endpoint.listener_name)
        proposed = ListenerValues(Proposed(config, overrides, values), endpoint.listener_name)
        try:
            new = read_settings(proposed.__getitem__)
            new.server_context(str(proposed["ssl.client.auth"]))
            check_replaceable(
                read_settings(current.__getitem__).keys,
                new.keys,
                allow_dn_changes=config.get_bool("ssl.allow.dn.changes"),
                allow_san_changes=config.get_bool("ssl.allow.san.changes"),
            )
        except TlsConfigError as error:
            raise ConfigError(f"Validation of dynamic config update of {prefix}* failed: {error}") from None


def _check_threads(values: Mapping[str, Any], own: Mapping[str, Any], config: KafkaConfig) -> None:
    for name in _THREAD_COUNTS:
        _check_thread_count(name, values[name], config.get_int(name))
    for name, value in own.items():
        if name != "num.network.threads" and plain_name(name) == "num.network.threads":
            _check_thread_count("num.network.threads", value, config.of_listener(name))
    threads, current = values["log.cleaner.threads"], config.get_int("log.cleaner.threads")
    if threads < current // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    if threads > current * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {current}")


def _check_thread_count(name: str, value: int, current: int) -> None:
    if value == current:
        return
    what = f"Dynamic thread count update validation failed for {name}={value}"
    if value < 1:
        raise ConfigError(f"{what}, value should be at least 1")
    if value < current // 2:
        raise ConfigError(f"{what}, value should be at least half the current value {current}")
    if value > current * 2:
        raise ConfigError(f"{what}, value should not be greater than double the current value {current}")


def _check_limits(values: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    for limit in ("max.connections", "max.connection.creation.rate"):
        given = [value for name, value in own.items() if name != limit and plain_name(name) == limit]
        if any(value <= 0 for value in (values[limit], *given)):
            raise ConfigError(f"Invalid {limit} 0")


def _check_local_retention(values: Mapping[str, Any]) -> None:
    for name, retention in (
        ("log.local.retention.ms", synonym_ms(values, "log.retention.ms")),
        ("log.local.retention.bytes", values["log.retention.bytes"]),
    ):
        local, whole = values[name], name.replace(".local", "")
        if retention in (None, -1) or local == -2:
            continue
        if local == -1:
            raise ConfigError(f"{name} must not be -1 while {whole} is {retention}")
        if local > retention:
            raise ConfigError(f"{name} must not be more than {whole}, which is {retention}")
