"""Quotas that an object of the user's own decides: `client.quota.callback.class=package.module:Class`.

    class MyQuotas:
        def configure(self, configs): ...       # optional; the broker's properties as texts
        def limit(self, kind, user, client_id): ...
        def update(self, kind, user, client_id, limit): ...  # optional; quotas in ZooKeeper, a limit of None: gone
        def close(self): ...                    # optional

`limit` returns None for no quota, or `(key, number)`: all clients with the same key, a text, share the quota. `kind` is
one of Produce, Fetch, Request and ControllerMutation. It is asked at every request, from many threads. When it raises,
what ZooKeeper says holds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from broker.config.keys import ConfigError
from broker.quotas.limits import Limits, Share
from controller.zk import paths
from network.plugins import make_configured

logger = logging.getLogger(__name__)


class OwnLimits(Limits):
    """Limits of one kind that somebody else decides; those that are set are told, and hold when that fails."""

    def __init__(self, quotas: Any, kind: str) -> None:
        super().__init__()
        self._quotas = quotas
        self._kind = kind

    def set(self, user: str | None, client_id: str | None, limit: float | None) -> bool:
        changed = super().set(user, client_id, limit)
        update = getattr(self._quotas, "update", None)
        if changed and update is not None:
            try:
                update(self._kind, _plain(user), _plain(client_id), limit)
            except BaseException:  # SystemExit would end the thread that tells or asks
                logger.exception("the quota callback failed to take a quota of %s", self._kind)
        return changed

    def of(self, user: str, client_id: str) -> Share | None:
        try:
            decided = self._quotas.limit(self._kind, _plain(user), _plain(client_id))
            if decided is None:
                return None
            key, limit = decided
            return Share(str(key), None, float(limit))
        except BaseException:
            logger.exception("the quota callback failed: the quotas in ZooKeeper hold")
            return super().of(user, client_id)


def load_own_limits(name: str, configs: Mapping[str, str]) -> Any:
    """Make and configure the object that `package.module:Class` names. Raises `ConfigError`."""
    try:
        return make_configured("client.quota.callback.class", name, "limit", configs)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _plain(name: str | None) -> str | None:
    return name if name is None or name == paths.DEFAULT_ENTITY else paths.desanitize(name)
