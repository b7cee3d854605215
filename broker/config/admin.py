"""Changing dynamic configs of topics and brokers: the checks, then the znode and its notification.

A resource's overrides are always replaced as a whole; an incremental change reads them, changes them and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.config.broker_keys import BROKER_KEYS
from broker.config.dynamic_checks import CheckListener, validate_default, validate_own
from broker.config.group_keys import validate_group_overrides
from broker.config.keys import ConfigError, ConfigType, ForbiddenConfigError
from broker.config.topic_config import validate_topic_overrides
from broker.config.topic_keys import TOPIC_KEYS
from broker.groups.consumer.config import is_enabled
from broker.telemetry.match import MatchError
from broker.telemetry.subscriptions import Subscription
from controller.zk import paths
from network.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.config.stored_passwords import StoredPasswords
    from controller.zk.admin import AdminZkClient
    from controller.zk.client import ZkClient

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE = 2, 4, 8, 16
GROUP_RESOURCE = 32
DEFAULT_BROKER = "<default>"


class Operation(NamedTuple):
    name: str
    kind: int
    value: str | None


class ConfigAdmin:
    """Methods wait for ZooKeeper; call them from a handler thread. All raise `ApiError`."""

    def __init__(
        self,
        config: KafkaConfig,
        passwords: StoredPasswords,
        zk: ZkClient,
        admin: AdminZkClient,
        check_listener: CheckListener,
    ) -> None:
        self._config = config
        self._check_listener = check_listener
        self._passwords = passwords
        self._zk = zk
        self._admin = admin

    def stored(self, resource_type: int, name: str) -> dict[str, str]:
        """The overrides that ZooKeeper has for a resource that is no logger, passwords in clear.

        Raises INVALID_CONFIG for a topic by a name that no path can hold, as Kafka does.
        """
        if resource_type == TOPIC_RESOURCE and name and not paths.can_hold(name):
            raise ApiError(ErrorCode.INVALID_CONFIG, _invalid(name, f"ZooKeeper takes no path that ends in {name!r}"))
        found = self._zk.config(self.entity_path(resource_type, name))
        return self._passwords.readable(found) if resource_type == BROKER_RESOURCE and name else found

    def entity_path(self, resource_type: int, name: str) -> str:
        """Raises INVALID_REQUEST for a broker resource that is not this broker's, or empty."""
        if resource_type == TOPIC_RESOURCE:
            return f"topics/{name}"
        if resource_type == GROUP_RESOURCE:
            return paths.group_config(name)
        if resource_type == CLIENT_METRICS_RESOURCE:
            return paths.client_metrics_config(name)
        if name == "":
            return f"brokers/{DEFAULT_BROKER}"
        self.check_own_broker(name, "Node", f"Unexpected broker id, expected {self._config.broker_id}, but received")
        return f"brokers/{name}"

    def check_own_broker(self, name: str, what: str, otherwise: str) -> None:
        """Raises INVALID_REQUEST for a name that is no number (`what` is), or `otherwise` for another broker's."""
        try:
            broker_id = int(name)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}") from None
        if broker_id != self._config.broker_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{otherwise} {name}")

    def apply(
        self, base: Mapping[str, str], operations: Sequence[Operation], keys: Mapping[str, object]
    ) -> dict[str, str]:
        """The overrides that result from incremental operations."""
        result = dict(base)
        table = TOPIC_KEYS if keys is TOPIC_KEYS else BROKER_KEYS
        for operation in operations:
            name, value = operation.name, operation.value
            if operation.kind == SET:
                assert value is not None
                result[name] = value
            elif operation.kind == DELETE:
                result.pop(name, None)
            else:
                key = table.get(name)
                if key is None:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
                if key.type is not ConfigType.LIST:
                    what = "append" if operation.kind == APPEND else "subtract"
                    raise ApiError(
                        ErrorCode.INVALID_CONFIG, f"Config value {what} is not allowed for config key: {name}"
                    )
                # Blanks around items count, as in Kafka: lists are compared as they are stored.
                current, given = _items(result.get(name, key.default) or ""), _items(value or "") or [""]
                if operation.kind == APPEND:
                    current = [*current, *(item for item in given if item not in current)]
                else:
                    for item in given:
                        if item in current:
                            current.remove(item)
                result[name] = ",".join(current)
        return result

    @property
    def serves_groups(self) -> bool:
        """Whether groups have configs: in ZooKeeper mode Kafka does not know them."""
        return is_enabled(self._config)

    @property
    def serves_client_metrics(self) -> bool:
        """Whether there are subscriptions to client metrics: in ZooKeeper mode Kafka does not know them."""
        return self._config.get_bool("odradek.client.telemetry.enable")

    def apply_plain(self, resource_type: int, name: str, operations: Sequence[Operation]) -> dict[str, str]:
        """The overrides of a group or of a subscription to client metrics that result from incremental operations.
        Kafka takes none of their configs for a list."""
        _check_name(resource_type, name)
        result = self.stored(resource_type, name)
        for name, kind, value in operations:
            if kind in (APPEND, SUBTRACT):
                what = "APPEND" if kind == APPEND else "SUBTRACT"
                raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {what} to key {name} because its type is not LIST.")
            if kind == DELETE:
                result.pop(name, None)
            else:
                result[name] = value or ""
        return result

    def write_group(self, group: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """The group need not exist."""
        _check_name(GROUP_RESOURCE, group)
        try:
            validate_group_overrides(overrides, self._config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if not validate_only:
            self._admin.change_configs(paths.group_config(group), overrides)

    def write_client_metrics(self, name: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """Without overrides there is no such subscription any more."""
        _check_name(CLIENT_METRICS_RESOURCE, name)
        try:
            Subscription.of(overrides)
        except MatchError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if not validate_only:
            self._admin.change_configs(paths.client_metrics_config(name), overrides)

    def write_topic(self, topic: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        if not topic:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if not paths.can_hold(topic) or not self._zk.topic_exists(topic):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        try:
            validate_topic_overrides(overrides, self._config)
        except ForbiddenConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, _invalid(topic, error)) from None
        if not validate_only:
            self._admin.change_configs(f"topics/{topic}", overrides)

    def write_broker(self, name: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        path = self.entity_path(BROKER_RESOURCE, name)
        try:
            if name:
                validate_own(self.stored(BROKER_RESOURCE, name), overrides, self._config, self._check_listener)
            else:
                validate_default(overrides, self._config)
            stored = {} if validate_only else self._passwords.encoded(overrides, per_broker=bool(name))
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if not validate_only:
            self._admin.change_configs(path, stored)


def _invalid(topic: str, problem: object) -> str:
    return f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): {problem}"


def _items(text: str) -> list[str]:
    """What stands between commas; nothing at the end is no item."""
    items = text.split(",")
    while items and not items[-1]:
        items.pop()
    return items


_NO_NAME = {
    GROUP_RESOURCE: "Default group resources are not allowed.",
    CLIENT_METRICS_RESOURCE: "Subscription name can't be empty",
}


def _check_name(resource_type: int, name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, _NO_NAME[resource_type])
