"""Every configuration key of a topic, with Kafka 3.9's defaults and rules, and the broker key that supplies its
default."""

from __future__ import annotations

from broker.config.broker_keys import VERSIONS
from broker.config.keys import (
    ConfigKey,
    ConfigType,
    Importance,
    at_least,
    between,
    between_or_value,
    each_of,
    one_of,
    throttled_replicas,
)

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = ConfigType
MEDIUM, LOW = Importance.MEDIUM, Importance.LOW

# fmt: off
_KEYS = (
    ConfigKey("cleanup.policy", LIST, "delete", MEDIUM,
              rule=each_of("compact", "delete"), broker_key="log.cleanup.policy"),
    ConfigKey("compression.gzip.level", INT, "-1", MEDIUM,
              rule=between_or_value(-1, 1, 9), broker_key="compression.gzip.level"),
    ConfigKey("compression.lz4.level", INT, "9", MEDIUM, rule=between(1, 17), broker_key="compression.lz4.level"),
    ConfigKey("compression.type", STRING, "producer", MEDIUM,
              rule=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), broker_key="compression.type"),
    ConfigKey("compression.zstd.level", INT, "3", MEDIUM,
              rule=between(-131072, 22), broker_key="compression.zstd.level"),
    ConfigKey("delete.retention.ms", LONG, "86400000", MEDIUM,
              rule=at_least(0), broker_key="log.cleaner.delete.retention.ms"),
    ConfigKey("file.delete.delay.ms", LONG, "60000", MEDIUM,
              rule=at_least(0), broker_key="log.segment.delete.delay.ms"),
    ConfigKey("flush.messages", LONG, "9223372036854775807", MEDIUM,
              rule=at_least(1), broker_key="log.flush.interval.messages"),
    ConfigKey("flush.ms", LONG, "9223372036854775807", MEDIUM, rule=at_least(0), broker_key="log.flush.interval.ms"),
    ConfigKey("follower.replication.throttled.replicas", LIST, "", MEDIUM, rule=throttled_replicas),
    ConfigKey("index.interval.bytes", INT, "4096", MEDIUM, rule=at_least(0), broker_key="log.index.interval.bytes"),
    ConfigKey("leader.replication.throttled.replicas", LIST, "", MEDIUM, rule=throttled_replicas),
    ConfigKey("local.retention.bytes", LONG, "-2", MEDIUM, rule=at_least(-2), broker_key="log.local.retention.bytes"),
    ConfigKey("local.retention.ms", LONG, "-2", MEDIUM, rule=at_least(-2), broker_key="log.local.retention.ms"),
    ConfigKey("max.compaction.lag.ms", LONG, "9223372036854775807", MEDIUM,
              rule=at_least(1), broker_key="log.cleaner.max.compaction.lag.ms"),
    ConfigKey("max.message.bytes", INT, "1048588", MEDIUM, rule=at_least(0), broker_key="message.max.bytes"),
    ConfigKey("message.downconversion.enable", BOOLEAN, "true", LOW, broker_key="log.message.downconversion.enable"),
    ConfigKey("message.format.version", STRING, "3.0-IV1", MEDIUM,
              rule=VERSIONS, broker_key="log.message.format.version"),
    ConfigKey("message.timestamp.after.max.ms", LONG, "9223372036854775807", MEDIUM,
              rule=at_least(0), broker_key="log.message.timestamp.after.max.ms"),
    ConfigKey("message.timestamp.before.max.ms", LONG, "9223372036854775807", MEDIUM,
              rule=at_least(0), broker_key="log.message.timestamp.before.max.ms"),
    ConfigKey("message.timestamp.difference.max.ms", LONG, "9223372036854775807", MEDIUM,
              rule=at_least(0), broker_key="log.message.timestamp.difference.max.ms"),
    ConfigKey("message.timestamp.type", STRING, "CreateTime", MEDIUM,
              rule=one_of("CreateTime", "LogAppendTime"), broker_key="log.message.timestamp.type"),
    ConfigKey("min.cleanable.dirty.ratio", DOUBLE, "0.5", MEDIUM,
              rule=between(0, 1), broker_key="log.cleaner.min.cleanable.ratio"),
    ConfigKey("min.compaction.lag.ms", LONG, "0", MEDIUM,
              rule=at_least(0), broker_key="log.cleaner.min.compaction.lag.ms"),
    ConfigKey("min.insync.replicas", INT, "1", MEDIUM, rule=at_least(1), broker_key="min.insync.replicas"),
    ConfigKey("preallocate", BOOLEAN, "false", MEDIUM, broker_key="log.preallocate"),
    ConfigKey("remote.log.copy.disable", BOOLEAN, "false", MEDIUM),
    ConfigKey("remote.log.delete.on.disable", BOOLEAN, "false", MEDIUM),
    ConfigKey("remote.storage.enable", BOOLEAN, "false", MEDIUM),
    ConfigKey("retention.bytes", LONG, "-1", MEDIUM, broker_key="log.retention.bytes"),
    ConfigKey("retention.ms", LONG, "604800000", MEDIUM, rule=at_least(-1), broker_key="log.retention.ms"),
    ConfigKey("segment.bytes", INT, "1073741824", MEDIUM, rule=at_least(14), broker_key="log.segment.bytes"),
    ConfigKey("segment.index.bytes", INT, "10485760", MEDIUM,
              rule=at_least(4), broker_key="log.index.size.max.bytes"),
    ConfigKey("segment.jitter.ms", LONG, "0", MEDIUM, rule=at_least(0), broker_key="log.roll.jitter.ms"),
    ConfigKey("segment.ms", LONG, "604800000", MEDIUM, rule=at_least(1), broker_key="log.roll.ms"),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, "false", MEDIUM,
              broker_key="unclean.leader.election.enable"),
)
# fmt: on

TOPIC_KEYS: dict[str, ConfigKey] = {key.name: key for key in _KEYS}
