"""The topic settings that a log obeys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from log.java_values import parse_double, parse_integer, trim

MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic, in Kafka's units (bytes, milliseconds), with Kafka's defaults.

    Keys that no log reads (replication throttles, tiered storage) are not here.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_INT64
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_timestamp_after_max_ms: int = MAX_INT64
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_difference_max_ms: int = MAX_INT64
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    # What follows from the settings, worked out once because every append asks for it.
    compact: bool = field(init=False, repr=False, compare=False)
    """Whether the cleaner compacts this log."""
    delete: bool = field(init=False, repr=False, compare=False)
    """Whether retention by time and size applies."""
    max_segment_ms: int = field(init=False, repr=False, compare=False)
    """The age at which a segment rolls; compaction lag can ask for less than `segment.ms`."""
    any_timestamp: bool = field(init=False, repr=False, compare=False)
    """Whether no limit is set on the timestamps of records."""
    stores_as_sent: bool = field(init=False, repr=False, compare=False)
    """Whether a well-formed batch is kept as the client made it, whatever keys and timestamps it has."""

    def __post_init__(self) -> None:
        derive = partial(object.__setattr__, self)
        compact = "compact" in self.cleanup_policy
        any_timestamp = (
            self.message_timestamp_difference_max_ms
            == self.message_timestamp_before_max_ms
            == self.message_timestamp_after_max_ms
            == MAX_INT64
        )
        derive("compact", compact)
        derive("delete", "delete" in self.cleanup_policy)
        derive("max_segment_ms", min(self.segment_ms, self.max_compaction_lag_ms) if compact else self.segment_ms)
        derive("any_timestamp", any_timestamp)
        derive(
            "stores_as_sent",
            self.compression_type == "producer"
            and self.message_timestamp_type == "CreateTime"
            and any_timestamp
            and not compact,
        )

    @property
    def timestamp_before_max_ms(self) -> int:
        """How far a record's timestamp may lie in the past; falls back to the deprecated difference setting."""
        before = self.message_timestamp_before_max_ms
        return before if before != MAX_INT64 else self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_max_ms(self) -> int:
        """How far a record's timestamp may lie in the future; falls back to the deprecated difference setting."""
        after = self.message_timestamp_after_max_ms
        return after if after != MAX_INT64 else self.message_timestamp_difference_max_ms

    @classmethod
    def from_mapping(cls, values: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """Settings named as Kafka names them (`segment.bytes`), over `defaults`.

        Keys that no log reads are skipped. Raises ValueError, naming the key, when a value does not parse.
        """
        changes: dict[str, Any] = {}
        for key, text in values.items():
            parse = _PARSERS.get(key)
            if parse is None:
                continue
            try:
                changes[key.replace(".", "_")] = parse(trim(text))
            except ValueError as e:
                raise ValueError(f"invalid value {text!r} for {key}: {e}") from None
        return replace(defaults or cls(), **changes)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected true or false")
    return lowered == "true"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return text

    return parse


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(",")) if text else frozenset()
    if not policies <= {"compact", "delete"}:
        raise ValueError("expected delete, compact, both or nothing")
    return policies


_SPECIAL: dict[str, Callable[[str], Any]] = {
    "cleanup.policy": _policies,
    "compression.type": _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "message.downconversion.enable": _boolean,
    "preallocate": _boolean,
    "unclean.leader.election.enable": _boolean,
    "min.cleanable.dirty.ratio": parse_double,
}
_PARSERS: dict[str, Callable[[str], Any]] = {
    name.replace("_", "."): _SPECIAL.get(name.replace("_", "."), parse_integer)
    for name, setting in LogConfig.__dataclass_fields__.items()
    if setting.init
}
