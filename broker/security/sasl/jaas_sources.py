"""Where the login modules of a listener's mechanism stand: its own key, else the static JAAS file.

Kafka's order: `listener.name.<listener>.<mechanism>.sasl.jaas.config`, then the contexts `<listener>.KafkaServer` and
`KafkaServer` of the file that `-Djava.security.auth.login.config` names, here as there among `KAFKA_OPTS`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from network.sasl.jaas import JaasError, LoginModule, parse_file, parse_single

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig

KEY = "sasl.jaas.config"
CONTEXT = "KafkaServer"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""By mechanism: the login module whose options are read."""


def own_text(config: KafkaConfig, listener: str, mechanism: str, key: str) -> str | None:
    """The value of a key for one mechanism of one listener; None if it has none of its own."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"
    for level in (config.dynamic_broker, config.dynamic_default, config.originals):
        if name in level:
            return level[name]
    return None


class JaasSources:
    """Finds the options of login modules. The file is read once."""

    def __init__(self, config: KafkaConfig, environment: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._environment = os.environ if environment is None else environment
        self._contexts: dict[str, list[LoginModule]] | None = None

    def options(self, listener: str, mechanism: str) -> Mapping[str, str]:
        """Raises `ConfigError`, without values, where nothing is configured or what is cannot be read."""
        wanted = _MODULES[mechanism]
        text = own_text(self._config, listener, mechanism, KEY)
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{KEY}"
        if text is not None:
            try:
                modules = [parse_single(text)]
            except JaasError as error:
                raise ConfigError(f"{name}: {error}") from None
        else:
            name, modules = self._context(listener)
        for module in modules:
            if module.name == wanted:
                return module.options
        raise ConfigError(f"{name} has no login module {wanted}, which {mechanism} needs")

    def _context(self, listener: str) -> tuple[str, list[LoginModule]]:
        path = jaas_file(self._environment)
        names = (f"{listener.lower()}.{CONTEXT}", CONTEXT)
        found = self._file(path) if path is not None else {}
        for name in names:
            if name in found:
                return f"{name} of {path}", found[name]
        raise ConfigError(
            f"Could not find a '{names[1]}' or '{names[0]}' entry in the JAAS configuration. System property "
            f"'java.security.auth.login.config' is {'not set' if path is None else path}"
        )

    def _file(self, path: str) -> dict[str, list[LoginModule]]:
        if self._contexts is None:
            try:
                self._contexts = parse_file(Path(path).read_text(encoding="utf-8"))
            except (JaasError, OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"the JAAS file {path} cannot be read: {error}") from None
        return self._contexts


def jaas_file(environment: Mapping[str, str]) -> str | None:
    """The path that `KAFKA_OPTS` gives to Java."""
    return java_property(environment, "java.security.auth.login.config")


def java_property(environment: Mapping[str, str], name: str) -> str | None:
    """The value of a `-Dname=value` among `KAFKA_OPTS`."""
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError:
        raise ConfigError("KAFKA_OPTS has a quote that is not closed") from None
    option = f"-D{name}="
    found = [word.removeprefix(option) for word in words if word.startswith(option)]
    return found[-1] if found else None
