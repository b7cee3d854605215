"""Which quota holds for a client: the most specific one that is set for its user, its client id, or both (KIP-55)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

DEFAULT: Final = "<default>"
"""In place of a name: all that have no quota of their own. Real names are percent-encoded, so none looks like this."""


class Share(NamedTuple):
    """A quota, and who shares it: the user or client id is None if it is shared by all of them."""

    user: str | None
    client_id: str | None
    limit: float


class Limits:
    """The quotas of one kind by (user, client id), with names as in ZooKeeper; None is "any, and not asked"."""

    def __init__(self) -> None:
        self._limits: Mapping[tuple[str | None, str | None], float] = {}

    def set(self, user: str | None, client_id: str | None, limit: float | None) -> bool:
        """Set a quota, or remove it; returns whether anything changed. One writer at a time."""
        key = (user, client_id)
        if self._limits.get(key) == limit:
            return False
        changed = {each: value for each, value in self._limits.items() if each != key}
        if limit is not None:
            changed[key] = limit
        self._limits = changed
        return True

    @property
    def is_empty(self) -> bool:
        return not self._limits

    def of(self, user: str, client_id: str) -> Share | None:
        """The quota that holds for a client, None without one.

        A quota for each of many is not shared among them: a default gives each the same.
        """
        limits = self._limits
        for quota_user, quota_client, shared_by_clients, shared_by_users in (
            (user, client_id, False, False),
            (user, DEFAULT, False, False),
            (user, None, True, False),
            (DEFAULT, client_id, False, False),
            (DEFAULT, DEFAULT, False, False),
            (DEFAULT, None, True, False),
            (None, client_id, False, True),
            (None, DEFAULT, False, True),
        ):
            limit = limits.get((quota_user, quota_client))
            if limit is not None:
                return Share(None if shared_by_users else user, None if shared_by_clients else client_id, limit)
        return None
