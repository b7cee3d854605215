"""What the configs of topics and groups do."""

TOPIC: dict[str, str] = {
    "cleanup.policy": "What happens to old segments: delete removes them by age and size, compact keeps the newest "
    "record of each key. Both may be given; with neither, nothing is removed.",
    "compression.gzip.level": "Compression level, 1 to 9 or -1 for the codec's own, when the broker compresses with "
    "gzip.",
    "compression.lz4.level": "Compression level, 1 to 17, when the broker compresses with lz4.",
    "compression.type": "Codec in which batches are stored. producer keeps what the client sent, uncompressed stores "
    "without compression, a codec's name recompresses what came in another.",
    "compression.zstd.level": "Compression level, -131072 to 22, when the broker compresses with zstd.",
    "delete.retention.ms": "How long compaction keeps a tombstone (a record with a key and no value), in ms: a "
    "consumer that reads from the start must be done within it to see every deletion.",
    "file.delete.delay.ms": "How long a removed segment stays on disk, renamed, before its files are unlinked, in ms.",
    "flush.messages": "Records after which the log is forced to disk. At its largest value flushing is left to the "
    "operating system, and durability to replication.",
    "flush.ms": "Time after which appended records are forced to disk, in ms. At its largest value flushing is left "
    "to the operating system.",
    "follower.replication.throttled.replicas": "Replicas whose fetching is limited by "
    "follower.replication.throttled.rate: * for all, or partition:broker pairs.",
    "index.interval.bytes": "Bytes of records between two entries of the offset index. Smaller finds faster and "
    "makes larger indexes.",
    "leader.replication.throttled.replicas": "Replicas that the leader serves at most at "
    "leader.replication.throttled.rate: * for all, or partition:broker pairs.",
    "local.retention.bytes": "With tiered storage, bytes of a partition that stay in the log directory; -2 takes "
    "retention.bytes.",
    "local.retention.ms": "With tiered storage, time that segments stay in the log directory, in ms; -2 takes "
    "retention.ms.",
    "max.compaction.lag.ms": "Time after which a record must become eligible for compaction, in ms; segments roll "
    "early enough for it.",
    "max.message.bytes": "Largest record batch that is taken, in bytes, as it is stored (compressed).",
    "message.downconversion.enable": "Whether batches are converted for consumers that only read older formats. When "
    "off, their fetches fail with UNSUPPORTED_VERSION.",
    "message.format.version": "Deprecated: the record format of brokers before 3.0.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may lie ahead of the broker's clock, in ms, with "
    "CreateTime; records beyond it are refused.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may lie behind the broker's clock, in ms, with "
    "CreateTime; records beyond it are refused.",
    "message.timestamp.difference.max.ms": "Deprecated: bound in both directions, used where the before or after bound "
    "is not set.",
    "message.timestamp.type": "Whether a record keeps the time its producer gave (CreateTime) or gets the time of its "
    "append (LogAppendTime).",
    "min.cleanable.dirty.ratio": "Share of a log's bytes that must be uncompacted before it is compacted, 0 to 1.",
    "min.compaction.lag.ms": "Time for which a record is kept from compaction, in ms.",
    "min.insync.replicas": "In-sync replicas that must be there for a write with acks=all; with fewer it is refused.",
    "preallocate": "Whether a new segment's file is given its full size at once.",
    "remote.log.copy.disable": "With tiered storage in KRaft mode, whether no more segments are copied away.",
    "remote.log.delete.on.disable": "With tiered storage in KRaft mode, whether the remote copies go when the topic "
    "leaves tiered storage.",
    "remote.storage.enable": "Whether segments of the topic are moved to tiered storage.",
    "retention.bytes": "Bytes of a partition above which its oldest segments are deleted; -1 is no bound. Applies to "
    "the delete policy, to each partition by itself.",
    "retention.ms": "Age in ms after which segments are deleted, by their newest timestamp; -1 is no bound. Applies "
    "to the delete policy.",
    "segment.bytes": "Size at which a segment is closed and a new one begun, in bytes. Only closed segments are "
    "deleted or compacted.",
    "segment.index.bytes": "Largest size of an offset or time index, in bytes; a full index closes the segment.",
    "segment.jitter.ms": "Largest random time by which a segment rolls early, in ms, so that many do not roll at once.",
    "segment.ms": "Age at which a segment is closed although it is not full, in ms.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become leader when no other is left: "
    "the partition serves again, and records may be lost.",
}

CLIENT_METRICS: dict[str, str] = {
    "interval.ms": "How often clients push, in ms, from 100 to 3600000; of several subscriptions the shortest.",
    "match": "Which clients are meant: a comma-separated list of attribute=expression, all of which must match. "
    "Attributes are client_instance_id, client_id, client_software_name, client_software_version, "
    "client_source_address and client_source_port, expressions those of RE2. Empty, all clients.",
    "metrics": "Prefixes of the names of metrics that clients push, a comma-separated list; * for all.",
}

GROUP: dict[str, str] = {
    "consumer.session.timeout.ms": "Time without a heartbeat after which a member of the group is removed, in ms.",
    "consumer.heartbeat.interval.ms": "Time between two heartbeats that members of the group are told, in ms.",
}
