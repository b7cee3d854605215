"""The passwords among a broker's dynamic configs: in clear within the broker, encoded in ZooKeeper.

Values that only `password.encoder.old.secret` can decode are encoded anew once the broker runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import ConfigError, ConfigType, UpdateMode
from broker.config.password_encoder import PasswordEncoder, PasswordError
from controller.zk.access import ControllerMovedError

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from timer.chance import Chance
    from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

_PASSWORDS = tuple(
    name for name, key in BROKER_KEYS.items() if key.type is ConfigType.PASSWORD and key.mode is UpdateMode.PER_BROKER
)
_RETRY_MS = 1_000


def is_password(name: str) -> bool:
    """Whether a dynamic config is stored encoded: whatever its prefix, as for Kafka."""
    return name.endswith(_PASSWORDS)


class StoredPasswords:
    """Encodes and decodes the overrides of one broker. Texts of errors name keys, never values."""

    def __init__(self, config: KafkaConfig, chance: Chance) -> None:
        """Raises `ConfigError` for an encoder that cannot be had."""
        self._encoder = _encoder(config, "password.encoder.secret", chance)
        self._old = _encoder(config, "password.encoder.old.secret", chance)

    def encoded(self, overrides: Mapping[str, str], *, per_broker: bool = True) -> dict[str, str]:
        """As they are stored. Raises `ConfigError` where there is a password and no secret, or no single broker."""
        if not per_broker and any(map(is_password, overrides)):
            raise ConfigError("Password config can be defined only at broker level")
        return {name: self._encode(text) if is_password(name) else text for name, text in overrides.items()}

    def decoded(self, stored: Mapping[str, str], *, per_broker: bool = True) -> dict[str, str]:
        """As they are meant. Raises `ConfigError` for a password that cannot be decoded."""
        if not per_broker and any(map(is_password, stored)):
            raise ConfigError("Password config can be defined only at broker level")
        return {name: self._decode(name, text) if is_password(name) else text for name, text in stored.items()}

    def readable(self, stored: Mapping[str, str], *, per_broker: bool = True) -> dict[str, str]:
        """The same without those that cannot be decoded, each an error in the log, as for Kafka: they can then be
        replaced."""
        found = {}
        for name, text in stored.items():
            try:
                found.update(self.decoded({name: text}, per_broker=per_broker))
            except ConfigError as error:
                logger.error("dynamic password config %s is ignored: %s", name, error)
        return found

    def renewed(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """What is to be stored in place of it when some were encoded by the old secret; None when none was."""
        if self._old is None or not any(self._is_old(name, text) for name, text in stored.items()):
            return None
        return self.encoded(self.decoded(stored))

    def _encode(self, password: str) -> str:
        if self._encoder is None:
            raise ConfigError("Password encoder secret not configured")
        return self._encoder.encode(password)

    def _decode(self, name: str, text: str) -> str:
        if self._encoder is None:
            raise ConfigError(f"{name} is an encoded password in ZooKeeper, and password.encoder.secret is not set")
        try:
            return self._encoder.decode(text)
        except PasswordError as error:
            if self._old is not None:
                try:
                    return self._old.decode(text)
                except PasswordError:
                    pass
            raise ConfigError(f"{name} in ZooKeeper cannot be decoded with password.encoder.secret: {error}") from None

    def _is_old(self, name: str, text: str) -> bool:
        if not is_password(name) or self._encoder is None:
            return False
        try:
            self._encoder.decode(text)
        except PasswordError:
            return True
        return False


class PasswordRotation:
    """Stores passwords of the old secret by the new one. ZooKeeper takes it once there is a controller."""

    def __init__(
        self,
        passwords: StoredPasswords,
        stored: Callable[[], dict[str, str]],
        store: Callable[[dict[str, str]], None],
        scheduler: Scheduler,
    ) -> None:
        self._passwords = passwords
        self._stored = stored
        self._store = store
        self._scheduler = scheduler

    def start(self, delay_ms: int = 0) -> None:
        self._scheduler.schedule_once("password-rotation", self._rotate, delay_ms)

    def _rotate(self) -> None:
        try:
            renewed = self._passwords.renewed(self._stored())
            if renewed is not None:
                self._store(renewed)
                logger.info("passwords of this broker in ZooKeeper are encoded by the new password.encoder.secret")
        except ControllerMovedError:
            self.start(_RETRY_MS)
        except ConfigError as error:
            logger.error("passwords in ZooKeeper stay as they are: %s", error)


def _encoder(config: KafkaConfig, key: str, chance: Chance) -> PasswordEncoder | None:
    secret = config.get_optional_str(key)
    if secret is None:
        return None
    return PasswordEncoder(
        secret,
        chance,
        config.get_optional_str("password.encoder.keyfactory.algorithm") or "PBKDF2WithHmacSHA512",
        config.get_str("password.encoder.cipher.algorithm"),
        config.get_int("password.encoder.key.length"),
        config.get_int("password.encoder.iterations"),
    )
