"""What AlterUserScramCredentials does: the checks, user by user, and the write (KIP-554).

A client sends the salted password, never the password itself. One bad item fails all of its user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from controller.zk import paths
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from network.sasl.scram_credential import BY_CODE, MAX_ITERATIONS, MIN_ITERATIONS, credential_of

Change = ScramCredentialDeletion | ScramCredentialUpsertion


class UserConfigs(Protocol):
    """What is needed of ZooKeeper."""

    def config(self, entity_path: str) -> dict[str, str]: ...


class ConfigWriter(Protocol):
    """What is needed to write."""

    def change_configs(self, entity_path: str, config: Mapping[str, str]) -> None: ...


Outcome = tuple[str, ErrorCode, str]
"""User, error and its text; the text of a success is empty."""


def alter(
    zk: UserConfigs,
    writer: ConfigWriter,
    deletions: Iterable[ScramCredentialDeletion],
    upsertions: Iterable[ScramCredentialUpsertion],
) -> Iterator[Outcome]:
    """Carry out what can be, one write a user. Waits for ZooKeeper."""
    by_user: dict[str, list[Change]] = {}
    changes: list[Change] = [*deletions, *upsertions]
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    for user, wanted in by_user.items():
        refusal = _refusal(wanted)
        if refusal is None:
            try:
                refusal = _write(zk, writer, user, wanted)
            except ValueError:  # a name that no path can hold, as "..": Kafka fails them all
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        yield (user, *(refusal or (ErrorCode.NONE, "")))


def _refusal(changes: list[Change]) -> tuple[ErrorCode, str] | None:
    """Why none of a user's changes is made, as far as it can be told without the stored ones."""
    for change in changes:
        if not change.name:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
        if change.mechanism not in BY_CODE:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if isinstance(change, ScramCredentialUpsertion):
            if change.iterations > MAX_ITERATIONS:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
            if change.iterations < MIN_ITERATIONS:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if max(Counter(change.mechanism for change in changes).values()) > 1:
        return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    return None


def _write(zk: UserConfigs, writer: ConfigWriter, user: str, changes: list[Change]) -> tuple[ErrorCode, str] | None:
    path = f"{paths.USER_CONFIG}/{paths.sanitize(user)}"
    config = zk.config(path)
    for change in changes:
        mechanism = BY_CODE[change.mechanism]
        if isinstance(change, ScramCredentialUpsertion):
            credential = credential_of(mechanism, bytes(change.salt), bytes(change.salted_password), change.iterations)
            config[mechanism.name] = credential.to_text()
        elif config.pop(mechanism.name, None) is None:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    writer.change_configs(path, config)
    return None
