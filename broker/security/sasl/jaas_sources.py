"""Where the login modules of a listener's mechanism stand: its own key, else the static JAAS file.

Kafka's order: `listener.name.<listener>.<mechanism>.sasl.jaas.config`, then the contexts `<listener>.KafkaServer` and
`KafkaServer` of the file that `-Djava.security.auth.login.config` names, here as there among `KAFKA_OPTS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from broker.config.keys import ConfigError
from broker.config.listener_values import Levels
from network.sasl import java_options
from network.sasl.clients import LOGIN_MODULES
from network.sasl.jaas import JaasError, LoginModule, parse_single
from network.sasl.java_options import JaasFile

KEY = "sasl.jaas.config"
CONTEXT = "KafkaServer"


def own_text(config: Levels, listener: str, mechanism: str, key: str) -> str | None:
    """The value of a key for one mechanism of one listener; None if it has none of its own."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"
    for level in (config.dynamic_broker, config.dynamic_default, config.originals):
        if name in level:
            return level[name]
    return None


class JaasSources:
    """Finds the options of login modules. The file is read once."""

    def __init__(self, config: Levels, environment: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._environment = os.environ if environment is None else environment
        self._file: JaasFile | None = None

    def over(self, config: Levels) -> JaasSources:
        """The same file with other values."""
        other = JaasSources(config, self._environment)
        other._file = self._file
        return other

    def options(self, listener: str, mechanism: str) -> Mapping[str, str]:
        """Raises `ConfigError`, without values, where nothing is configured or what is cannot be read."""
        wanted = LOGIN_MODULES[mechanism]
        text = own_text(self._config, listener, mechanism, KEY)
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{KEY}"
        if text is not None:
            try:
                modules = [parse_single(text)]
            except JaasError as error:
                raise ConfigError(f"{name}: {error}") from None
        else:
            name, modules = self._context(listener, mechanism)
        for module in modules:
            if module.name == wanted:
                return module.options
        raise ConfigError(f"{name} has no login module {wanted}, which {mechanism} needs")

    def _context(self, listener: str, mechanism: str) -> tuple[str, list[LoginModule]]:
        try:
            if self._file is None:
                self._file = JaasFile(self._environment)
            return self._file.need(f"{listener.lower()}.{CONTEXT}", CONTEXT)
        except JaasError as error:
            raise ConfigError(f"{error} (for {mechanism} of the listener {listener})") from None


def java_property(environment: Mapping[str, str], name: str) -> str | None:
    """As `java_options` has it; raises `ConfigError`."""
    try:
        return java_options.java_property(environment, name)
    except JaasError as error:
        raise ConfigError(str(error)) from None
