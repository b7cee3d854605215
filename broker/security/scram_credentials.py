"""SCRAM credentials as they are stored: keys of `/config/users/U`, named after the mechanism (KIP-84, KIP-554).

The value is `salt=...,stored_key=...,server_key=...,iterations=n`, in any order.
"""

from __future__ import annotations

from broker.security.client_quotas import Configs
from controller.zk import paths

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Mechanism names with their codes on the wire."""

_PARTS = {"salt", "stored_key", "server_key", "iterations"}


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
    return {code: _iterations(stored[name]) for name, code in MECHANISMS.items() if name in stored}


def _iterations(text: str) -> int:
    parts = dict(item.strip().split("=", 1) for item in text.split(","))
    if parts.keys() != _PARTS:
        raise ValueError("a SCRAM credential in ZooKeeper lacks a part, or has one too many")
    return int(parts["iterations"])
