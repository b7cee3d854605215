"""The configs of topics that have logs here: read once for a topic, then kept up to date by the change notifications.

A topic of a thousand partitions is one read and not a thousand. Configs are kept only while the topic has a log here:
a topic that is deleted and made again sends no notification, so they are read anew then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from log.config import LogConfig


class TopicConfigs:
    """Overrides by topic over the broker's defaults. A change must not come between a read and the log it is for."""

    def __init__(self, read: Callable[[str], Mapping[str, str]], defaults: LogConfig) -> None:
        self.defaults = defaults
        self._read = read
        self._lock = Lock()
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._configs: dict[str, LogConfig] = {}  # one for all logs of a topic

    def get(self, topic: str) -> LogConfig:
        """The config of the logs of `topic`."""
        config = self._configs.get(topic)
        if config is not None:
            return config
        overrides = self._overrides.get(topic)
        if overrides is None:
            overrides = self._read(topic)
        with self._lock:
            return self._keep(topic, self._overrides.get(topic, overrides))

    def update(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Take new overrides; they are kept only for a topic that was asked for."""
        with self._lock:
            if topic in self._overrides:
                return self._keep(topic, overrides)
        return LogConfig.from_mapping(overrides, self.defaults)

    def set_defaults(self, defaults: LogConfig) -> None:
        """Take new defaults for every topic."""
        with self._lock:
            self.defaults = defaults
            self._configs.clear()

    def forget(self, topic: str) -> None:
        """A log of the topic is gone: the next one reads again."""
        with self._lock:
            self._overrides.pop(topic, None)
            self._configs.pop(topic, None)

    def _keep(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        self._overrides[topic] = overrides
        config = self._configs[topic] = LogConfig.from_mapping(overrides, self.defaults)
        return config
