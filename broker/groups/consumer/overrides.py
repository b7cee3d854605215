"""Sessions and heartbeats of groups that have configs of their own."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.config.group_keys import GROUP_KEYS, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from broker.config.keys import ConfigError, parse_value
from broker.groups.consumer.config import ConsumerGroupConfig

logger = logging.getLogger(__name__)


class GroupOverrides:
    """The broker's settings, and what groups have instead. Thread-safe: a group's overrides are replaced as a whole."""

    def __init__(self, config: ConsumerGroupConfig) -> None:
        self._config = config
        self._by_group: dict[str, dict[str, int]] = {}

    def on_change(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """All overrides of a group; what cannot be read is logged, and does not apply."""
        values: dict[str, int] = {}
        for name, text in overrides.items():
            try:
                if name in GROUP_KEYS:
                    values[name] = parse_value(GROUP_KEYS[name], text)
            except ConfigError as error:
                logger.error("group %s: a stored config is ignored: %s", group_id, error)
        if values:
            self._by_group[group_id] = values
        else:
            self._by_group.pop(group_id, None)

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a member of the consumer protocol may be silent."""
        return self._get(group_id, SESSION_TIMEOUT_MS, self._config.session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """What members are told to beat at."""
        return self._get(group_id, HEARTBEAT_INTERVAL_MS, self._config.heartbeat_interval_ms)

    def _get(self, group_id: str, name: str, default: int) -> int:
        found = self._by_group.get(group_id)
        return default if found is None else found.get(name, default)
