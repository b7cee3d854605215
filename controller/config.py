"""What the controller needs to know of the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class InterBrokerVersion(Protocol):
    """`inter.broker.protocol.version` (IBP): what older brokers in the cluster understand."""

    def at_least(self, name: str) -> bool:
        """Whether the version is `name` (such as `3.4-IV0`) or newer."""
        ...


@dataclass(slots=True)
class ControllerConfig:
    """Names are those of the configuration keys. The dynamic ones may be changed while the controller runs."""

    broker_id: int
    version: InterBrokerVersion
    inter_broker_listener: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controller_socket_timeout_ms: int = 30000
    request_timeout_ms: int = 30000

    @property
    def control_listener(self) -> str:
        """The listener on which brokers take the controller's requests."""
        return self.control_plane_listener or self.inter_broker_listener

    @property
    def uses_topic_ids(self) -> bool:
        return self.version.at_least("2.8-IV0")

    @property
    def uses_alter_partition(self) -> bool:
        return self.version.at_least("2.7-IV2")

    @property
    def uses_features(self) -> bool:
        return self.version.at_least("2.7-IV0")

    @property
    def feature_json_version(self) -> int:
        return 2 if self.version.at_least("3.3-IV0") else 1

    @property
    def has_leader_recovery_state(self) -> bool:
        return self.version.at_least("3.2-IV0")

    @property
    def registration_json_version(self) -> int:
        """The version of the JSON under `/brokers/ids`."""
        if self.version.at_least("2.7-IV0"):
            return 5
        return 4 if self.version.at_least("0.10.0-IV1") else 2

    @property
    def leader_and_isr_version(self) -> int:
        return self._first(_LEADER_AND_ISR)

    @property
    def update_metadata_version(self) -> int:
        return self._first(_UPDATE_METADATA)

    @property
    def stop_replica_version(self) -> int:
        return self._first(_STOP_REPLICA)

    def _first(self, table: tuple[tuple[str, int], ...]) -> int:
        return next((number for name, number in table if self.version.at_least(name)), 0)


_LEADER_AND_ISR = (
    ("3.4-IV0", 7),
    ("3.2-IV0", 6),
    ("2.8-IV1", 5),
    ("2.4-IV1", 4),
    ("2.4-IV0", 3),
    ("2.2-IV0", 2),
    ("1.0-IV0", 1),
)
_UPDATE_METADATA = (
    ("3.4-IV0", 8),
    ("2.8-IV1", 7),
    ("2.4-IV1", 6),
    ("2.2-IV0", 5),
    ("1.0-IV0", 4),
    ("0.10.2-IV0", 3),
    ("0.10.0-IV1", 2),
    ("0.9.0", 1),
)
_STOP_REPLICA = (("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1))
