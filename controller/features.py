"""`/feature`: finalized feature levels. Brokers in ZooKeeper mode support none, so it stays empty."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.core import ControllerCore
from controller.reassignment import PartitionError
from controller.zk.payloads import FeatureZnode
from network.protocol.errors import ErrorCode
from network.protocol.messages.update_features import FeatureUpdateKey

logger = logging.getLogger(__name__)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

# Waits until this broker's own feature cache has seen a version of the znode; raises on time-out.
AwaitFeatureVersion = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """One wish of an UpdateFeatures request; a level below 1 deletes the feature."""

    name: str
    level: int
    upgrade_type: int = UPGRADE

    @classmethod
    def of(cls, update: FeatureUpdateKey, version: int) -> FeatureUpdate:
        """From a request; version 0 has a flag in the place of the upgrade type."""
        if version >= 1:
            return cls(update.feature, update.max_version_level, update.upgrade_type)
        return cls(update.feature, update.max_version_level, SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE)


class Features:
    """Runs on the event thread."""

    def __init__(self, core: ControllerCore, await_version: AwaitFeatureVersion | None = None) -> None:
        self._core = core
        self._await_version = await_version

    def setup(self) -> None:
        """At failover: bring the znode into the form of this IBP, and wait until the own cache has it."""
        config, zk = self._core.config, self._core.zk
        found = zk.feature()
        current = None if found is None else found[0]
        if not config.uses_features:
            wanted = FeatureZnode(config.feature_json_version, enabled=False)
        elif current is not None and current.enabled:
            wanted = FeatureZnode(config.feature_json_version, True, current.features)
        else:
            wanted = FeatureZnode(config.feature_json_version, enabled=True)
        version = found[1] if found is not None and current == wanted else zk.write_feature(wanted)
        self._core.context.finalized_features = dict(wanted.features)
        if config.uses_features and self._await_version is not None:
            self._await_version(version)

    def update(self, updates: Sequence[FeatureUpdate], validate_only: bool) -> dict[str, PartitionError]:
        """The outcome of each update; all accepted ones are written at once."""
        finalized = dict(self._core.context.finalized_features)
        results: dict[str, PartitionError] = {}
        for update in updates:
            error = self._refusal(update, finalized)
            results[update.name] = PartitionError() if error is None else PartitionError(*error)
            if error is None:
                finalized.pop(update.name, None)
        if validate_only or finalized == self._core.context.finalized_features:
            return results
        try:
            version = self._core.zk.write_feature(FeatureZnode(self._core.config.feature_json_version, True, finalized))
            if self._await_version is not None:
                self._await_version(version)
        except Exception as error:
            logger.exception("Could not update the finalized features")
            failed = PartitionError(ErrorCode.FEATURE_UPDATE_FAILED, str(error))
            return {name: failed if result.ok else result for name, result in results.items()}
        self._core.context.finalized_features = finalized
        return results

    def _refusal(self, update: FeatureUpdate, finalized: dict[str, int]) -> tuple[ErrorCode, str] | None:
        def refuse(message: str) -> tuple[ErrorCode, str]:
            return ErrorCode.INVALID_REQUEST, message

        if not update.name:
            return refuse("Feature name can not be empty.")
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return refuse("Received unknown upgrade type.")
        if update.level >= 1:
            return refuse("Could not apply finalized feature update because the provided feature is not supported.")
        if update.upgrade_type == UPGRADE:
            return refuse("Can not provide a level below 1 without the downgrade flag set: that deletes the feature.")
        if update.name not in finalized:
            return refuse(f"Can not delete non-existing finalized feature: '{update.name}'")
        return None
