"""What the keys of log directories, flushing, cleaning and replication do. Those that supply the default of a topic
config are described there."""

KEYS: dict[str, str] = {
    "log.dir": "Directory of the logs, when log.dirs is not set.",
    "log.dirs": "Directories of the logs, separated by commas: a new replica goes to the one with the fewest replicas.",
    "log.dir.failure.timeout.ms": "KRaft: time after which a broker stops that cannot tell of a failed directory, in "
    "ms.",
    "log.flush.scheduler.interval.ms": "How often is looked for logs to force to disk, in ms.",
    "log.flush.offset.checkpoint.interval.ms": "How often the offsets up to which logs are on disk are written down, "
    "in ms.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the first offsets of logs are written down, in ms.",
    "log.initial.task.delay.ms": "Time after the start before background tasks of logs run, in ms.",
    "log.retention.check.interval.ms": "How often is looked for segments to delete, in ms.",
    "log.retention.hours": "log.retention.ms in hours, when neither ms nor minutes are set.",
    "log.retention.minutes": "log.retention.ms in minutes, when ms are not set.",
    "log.roll.hours": "log.roll.ms in hours, when ms are not set.",
    "log.roll.jitter.hours": "log.roll.jitter.ms in hours, when ms are not set.",
    "log.cleaner.enable": "Whether logs with the compact policy are compacted.",
    "log.cleaner.threads": "Threads that compact logs.",
    "log.cleaner.dedupe.buffer.size": "Memory for the tables of keys of all cleaner threads, in bytes; at least 1 MB "
    "each.",
    "log.cleaner.io.buffer.size": "Memory for reading and writing of all cleaner threads, in bytes.",
    "log.cleaner.io.buffer.load.factor": "How full a table of keys may become, 0 to 1.",
    "log.cleaner.io.max.bytes.per.second": "Bytes a second that all cleaner threads together read and write.",
    "log.cleaner.backoff.ms": "Pause of a cleaner thread when no log needs it, in ms.",
    "num.recovery.threads.per.data.dir": "Threads a log directory that load logs at the start and flush them at the "
    "end.",
    "num.replica.alter.log.dirs.threads": "Threads that copy replicas between log directories; one a directory when "
    "it is not set.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes a second at which replicas are copied between log "
    "directories.",
    "alter.log.dirs.replication.quota.window.num": "Windows over which the rate of copying between log directories is "
    "measured.",
    "alter.log.dirs.replication.quota.window.size.seconds": "Length of a window over which the rate of copying between "
    "log directories is measured, in seconds.",
    "producer.id.expiration.ms": "Time without a write after which an idempotent producer is forgotten, in ms.",
    "producer.id.expiration.check.interval.ms": "How often is looked for such producers, in ms.",
    "num.replica.fetchers": "Threads that fetch from each other broker.",
    "replica.fetch.backoff.ms": "Pause of a fetcher after an error, in ms.",
    "replica.fetch.max.bytes": "Bytes that a follower asks for of one partition; a larger first batch comes anyway.",
    "replica.fetch.min.bytes": "Bytes that a leader waits for before it answers a follower.",
    "replica.fetch.response.max.bytes": "Bytes that a follower asks for in one answer.",
    "replica.fetch.wait.max.ms": "Longest time a leader lets a follower's fetch wait, in ms.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down, in ms.",
    "replica.lag.time.max.ms": "Time after which a follower that has not caught up leaves the in-sync replicas, in ms.",
    "replica.selector.class": "How the replica is chosen that a consumer is told to fetch from: "
    "org.apache.kafka.common.replica.RackAwareReplicaSelector picks one in its rack, else the leader.",
    "replica.socket.receive.buffer.bytes": "Receive buffer of a fetcher's socket in bytes.",
    "replica.socket.timeout.ms": "Socket timeout of a fetcher, in ms; at least replica.fetch.wait.max.ms.",
    "leader.replication.throttled.rate": "Bytes a second at which this broker, as leader, serves throttled replicas.",
    "follower.replication.throttled.rate": "Bytes a second at which this broker fetches throttled replicas.",
    "replication.quota.window.num": "Windows over which the rate of throttled replication is measured.",
    "replication.quota.window.size.seconds": "Length of a window over which the rate of throttled replication is "
    "measured, in seconds.",
    "remote.log.storage.system.enable": "Whether closed segments can be moved to tiered storage.",
    "remote.log.storage.manager.class.name": "Tiered storage: class that stores segments.",
    "remote.log.storage.manager.class.path": "Tiered storage: where the class that stores segments is.",
    "remote.log.storage.manager.impl.prefix": "Tiered storage: prefix of the keys of the class that stores segments.",
    "remote.log.metadata.manager.class.name": "Tiered storage: class that keeps what is stored where.",
    "remote.log.metadata.manager.class.path": "Tiered storage: where the class is that keeps what is stored where.",
    "remote.log.metadata.manager.impl.prefix": "Tiered storage: prefix of the keys of the class that keeps what is "
    "stored where.",
    "remote.log.metadata.manager.listener.name": "Tiered storage: listener by which the class that keeps what is "
    "stored where reaches brokers.",
    "remote.log.metadata.custom.metadata.max.bytes": "Tiered storage: bytes of its own that a store keeps a segment.",
    "remote.log.index.file.cache.total.size.bytes": "Tiered storage: bytes of remote indexes kept on disk.",
    "remote.log.manager.thread.pool.size": "Tiered storage: threads for its tasks.",
    "remote.log.manager.copier.thread.pool.size": "Tiered storage: threads that copy segments; -1 takes "
    "remote.log.manager.thread.pool.size.",
    "remote.log.manager.expiration.thread.pool.size": "Tiered storage: threads that expire segments; -1 takes "
    "remote.log.manager.thread.pool.size.",
    "remote.log.manager.task.interval.ms": "Tiered storage: time between two runs of its tasks, in ms.",
    "remote.log.manager.task.retry.backoff.ms": "Tiered storage: first pause before a failed task runs again, in ms.",
    "remote.log.manager.task.retry.backoff.max.ms": "Tiered storage: longest pause before a failed task runs again, in "
    "ms.",
    "remote.log.manager.task.retry.jitter": "Tiered storage: share by which the pause before a failed task runs again "
    "varies.",
    "remote.log.manager.copy.max.bytes.per.second": "Tiered storage: bytes a second that are copied away.",
    "remote.log.manager.copy.quota.window.num": "Tiered storage: windows over which the rate of copying away is "
    "measured.",
    "remote.log.manager.copy.quota.window.size.seconds": "Tiered storage: length of a window over which the rate of "
    "copying away is measured, in seconds.",
    "remote.log.manager.fetch.max.bytes.per.second": "Tiered storage: bytes a second that are read back.",
    "remote.log.manager.fetch.quota.window.num": "Tiered storage: windows over which the rate of reading back is "
    "measured.",
    "remote.log.manager.fetch.quota.window.size.seconds": "Tiered storage: length of a window over which the rate of "
    "reading back is measured, in seconds.",
    "remote.log.reader.threads": "Tiered storage: threads that read remote segments.",
    "remote.log.reader.max.pending.tasks": "Tiered storage: reads that may wait for a reader thread.",
    "remote.fetch.max.wait.ms": "Tiered storage: longest time a fetch waits for remote data, in ms.",
}
