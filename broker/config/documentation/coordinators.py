"""What the keys of groups, offsets, transactions, metrics and telemetry do."""

KEYS: dict[str, str] = {
    "group.coordinator.rebalance.protocols": "Group protocols that are served: classic, and consumer (KIP-848).",
    "group.coordinator.new.enable": "Kafka's switch to its newer coordinator.",
    "group.coordinator.threads": "Threads of Kafka's newer coordinator.",
    "group.coordinator.append.linger.ms": "Time for which Kafka's newer coordinator gathers writes, in ms.",
    "group.initial.rebalance.delay.ms": "Time the first rebalance of an empty group waits for more members, in ms.",
    "group.max.session.timeout.ms": "Longest session timeout that a member may ask for, in ms.",
    "group.min.session.timeout.ms": "Shortest session timeout that a member may ask for, in ms.",
    "group.max.size": "Most members of a classic group.",
    "group.consumer.assignors": "Assignors for groups of the consumer protocol; the first is for groups that name "
    "none.",
    "group.consumer.max.size": "Most members of a group of the consumer protocol.",
    "group.consumer.migration.policy": "Which way a group with members may change between the protocols: disabled, "
    "upgrade, downgrade or bidirectional.",
    "group.consumer.session.timeout.ms": "Time without a heartbeat after which a member of the consumer protocol is "
    "removed, in ms, in groups without a value of their own.",
    "group.consumer.min.session.timeout.ms": "Shortest session timeout that a group of the consumer protocol may set, "
    "in ms.",
    "group.consumer.max.session.timeout.ms": "Longest session timeout that a group of the consumer protocol may set, "
    "in ms.",
    "group.consumer.heartbeat.interval.ms": "Time between two heartbeats that members of the consumer protocol are "
    "told, in ms, in groups without a value of their own.",
    "group.consumer.min.heartbeat.interval.ms": "Shortest heartbeat interval that a group of the consumer protocol may "
    "set, in ms.",
    "group.consumer.max.heartbeat.interval.ms": "Longest heartbeat interval that a group of the consumer protocol may "
    "set, in ms.",
    "offset.metadata.max.bytes": "Longest text that a commit may carry beside an offset.",
    "offsets.commit.required.acks": "Acknowledgements that a commit needs before it is answered: -1 is all in-sync "
    "replicas.",
    "offsets.commit.timeout.ms": "Time the acknowledgements of a commit may take, in ms.",
    "offsets.load.buffer.size": "Bytes read at a time when a coordinator loads its groups.",
    "offsets.retention.check.interval.ms": "How often is looked for offsets to forget, in ms.",
    "offsets.retention.minutes": "Time after which offsets of an empty group are forgotten, in minutes.",
    "offsets.topic.compression.codec": "Codec of __consumer_offsets by its number: 0 is none.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets when it is made; never change it later.",
    "offsets.topic.replication.factor": "Replicas of __consumer_offsets; it is not made while there are fewer brokers.",
    "offsets.topic.segment.bytes": "Segment size of __consumer_offsets in bytes.",
    "transaction.max.timeout.ms": "Longest transaction timeout that a producer may ask for, in ms.",
    "transactional.id.expiration.ms": "Time without a transaction after which a transactional id is forgotten, in ms.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often is looked for transactions to abort "
    "because they have timed out, in ms.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often is looked for transactional ids to "
    "forget, in ms.",
    "transaction.partition.verification.enable": "Whether a transactional write is taken only when the coordinator "
    "knows the partition as part of the transaction.",
    "transaction.state.log.load.buffer.size": "Bytes read at a time when a coordinator loads its transactions.",
    "transaction.state.log.min.isr": "min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state when it is made; never change it later.",
    "transaction.state.log.replication.factor": "Replicas of __transaction_state; it is not made while there are fewer "
    "brokers.",
    "transaction.state.log.segment.bytes": "Segment size of __transaction_state in bytes.",
    "group.share.enable": "Share groups: whether they are served.",
    "group.share.delivery.count.limit": "Share groups: deliveries of a record before it is given up.",
    "group.share.heartbeat.interval.ms": "Share groups: time between two heartbeats, in ms.",
    "group.share.min.heartbeat.interval.ms": "Share groups: shortest heartbeat interval, in ms.",
    "group.share.max.heartbeat.interval.ms": "Share groups: longest heartbeat interval, in ms.",
    "group.share.session.timeout.ms": "Share groups: time without a heartbeat after which a member is removed, in ms.",
    "group.share.min.session.timeout.ms": "Share groups: shortest session timeout, in ms.",
    "group.share.max.session.timeout.ms": "Share groups: longest session timeout, in ms.",
    "group.share.record.lock.duration.ms": "Share groups: time a member holds a record, in ms.",
    "group.share.min.record.lock.duration.ms": "Share groups: shortest time a member holds a record, in ms.",
    "group.share.max.record.lock.duration.ms": "Share groups: longest time a member holds a record, in ms.",
    "group.share.partition.max.record.locks": "Share groups: records of a partition held at a time.",
    "group.share.max.groups": "Share groups: most groups.",
    "group.share.max.size": "Share groups: most members of a group.",
    "auto.include.jmx.reporter": "Whether metrics appear in JMX although metric.reporters does not say so.",
    "kafka.metrics.polling.interval.secs": "How often the classes of kafka.metrics.reporters are run, in seconds.",
    "kafka.metrics.reporters": "Classes that report the broker's own metrics.",
    "metric.reporters": "Classes that report metrics.",
    "metrics.num.samples": "Samples of which a metric is worked out.",
    "metrics.recording.level": "Highest level of metrics that are recorded: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "Time over which a sample is taken, in ms.",
    "telemetry.max.bytes": "Largest size of the metrics that a client may push, in bytes, as they "
    "come; decompressed eight times as much. Of use with odradek.client.telemetry.enable.",
}
