"""SCRAM credentials as they are stored: keys of `/config/users/U`, named after the mechanism (KIP-84, KIP-554).

The value is `salt=...,stored_key=...,server_key=...,iterations=n`, in any order.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.security.client_quotas import Configs
from controller.zk import paths
from network.sasl.scram_credential import MECHANISMS, ScramCredential

logger = logging.getLogger(__name__)


class ScramCredentials:
    """What logins are checked against: every credential in ZooKeeper, kept up to date by the config notifications.

    Written by the listener's thread, read by the processors.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[str, ScramCredential]] = {name: {} for name in MECHANISMS}

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._users[mechanism].get(user)

    def on_user_change(self, entity: str, overrides: Mapping[str, str]) -> None:
        """The full set of a user's overrides; the name as in the path. One that cannot be read counts as none."""
        if "/" in entity or entity == paths.DEFAULT_ENTITY:
            return
        user = paths.desanitize(entity)
        for name, users in self._users.items():
            text = overrides.get(name)
            try:
                credential = None if text is None else ScramCredential.from_text(text)
            except ValueError as error:
                logger.warning("the %s credential of user %r is not used: %s", name, user, error)
                credential = None
            if credential is None:
                users.pop(user, None)
            else:
                users[user] = credential


def read_credentials(zk: Configs, user: str) -> dict[int, int]:
    """Iterations by mechanism code of one user, empty without credentials.

    Waits for ZooKeeper. Raises ValueError for a stored credential that is none.
    """
    return _credentials(zk, paths.sanitize(user))


def users_with_credentials(zk: Configs) -> dict[str, dict[int, int]]:
    """The same for every user that has any, by name."""
    names = [child for child in zk.config_entities(paths.USER_CONFIG) if child != paths.DEFAULT_ENTITY]
    found = {paths.desanitize(child): _credentials(zk, child) for child in names}
    return {user: found[user] for user in sorted(found) if found[user]}


def _credentials(zk: Configs, child: str) -> dict[int, int]:
    stored = zk.config(f"{paths.USER_CONFIG}/{child}")
    return {
        mechanism.code: ScramCredential.from_text(stored[name]).iterations
        for name, mechanism in MECHANISMS.items()
        if name in stored
    }
