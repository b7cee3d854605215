"""What the keys of identity, ZooKeeper, controller and cluster do, and those of KRaft mode."""

KEYS: dict[str, str] = {
    "broker.id": "Number of this broker in the cluster. When it is not set, the one in the log directories is taken, "
    "else ZooKeeper generates one above reserved.broker.max.id.",
    "broker.id.generation.enable": "Whether a broker without an id gets one from ZooKeeper.",
    "broker.rack": "Rack or zone of this broker: replicas are spread over racks, and consumers can fetch from their "
    "own.",
    "node.id": "The same as broker.id; whichever is set, both have its value.",
    "reserved.broker.max.id": "Largest id that may be configured; generated ones begin above it.",
    "zookeeper.connect": "ZooKeeper servers as host:port, separated by commas, with an optional chroot at the end: "
    "host1:2181,host2:2181/path. Required.",
    "zookeeper.connection.timeout.ms": "How long the start waits for a connection to ZooKeeper, in ms; the session "
    "timeout when it is not set.",
    "zookeeper.max.in.flight.requests": "Requests to ZooKeeper that may wait for their answers at a time.",
    "zookeeper.session.timeout.ms": "ZooKeeper session timeout in ms: a broker that is silent for so long counts as "
    "dead.",
    "zookeeper.set.acl": "Whether znodes are made for this cluster's principals only.",
    "zookeeper.metadata.migration.enable": "Whether this broker takes part in the migration of the cluster to KRaft.",
    "zookeeper.metadata.migration.min.batch.size": "KRaft migration: records the controller puts into a batch.",
    "auto.leader.rebalance.enable": "Whether the controller moves leaderships back to the preferred replicas now and "
    "then.",
    "leader.imbalance.check.interval.seconds": "Time between two checks of the controller for leaderships to give "
    "back, in seconds.",
    "leader.imbalance.per.broker.percentage": "Share of partitions, in percent, whose preferred broker may be without "
    "their leadership before it is given back.",
    "controlled.shutdown.enable": "Whether a broker that stops hands its leaderships over first.",
    "controlled.shutdown.max.retries": "Attempts at handing leaderships over before the broker stops regardless.",
    "controlled.shutdown.retry.backoff.ms": "Pause between two attempts at handing leaderships over, in ms.",
    "controller.socket.timeout.ms": "Socket timeout of the connections between controller and brokers, in ms.",
    "default.replication.factor": "Replicas of a topic that is created automatically, or without naming a number.",
    "num.partitions": "Partitions of a topic that is created automatically, or without naming a number.",
    "auto.create.topics.enable": "Whether a topic is created when a client asks for the metadata of one that is not "
    "there.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "create.topic.policy.class.name": "Class that may refuse the creation of a topic.",
    "alter.config.policy.class.name": "Class that may refuse a change of configs.",
    "inter.broker.protocol.version": "Version that the oldest broker of the cluster understands: which requests "
    "brokers send each other and which fields znodes have. Raise it when all brokers are upgraded.",
    "process.roles": "Roles in KRaft mode. Must be empty: this broker runs with ZooKeeper.",
    "controller.listener.names": "KRaft: listeners of the controllers.",
    "controller.quorum.append.linger.ms": "KRaft: time a controller gathers writes before it flushes them, in ms.",
    "controller.quorum.bootstrap.servers": "KRaft: controllers to begin with.",
    "controller.quorum.election.backoff.max.ms": "KRaft: longest pause before another election, in ms.",
    "controller.quorum.election.timeout.ms": "KRaft: time a candidate waits for votes, in ms.",
    "controller.quorum.fetch.timeout.ms": "KRaft: time without a successful fetch after which a voter stands for "
    "election, in ms.",
    "controller.quorum.request.timeout.ms": "KRaft: time a request among controllers may take, in ms.",
    "controller.quorum.retry.backoff.ms": "KRaft: pause before a request among controllers is sent again, in ms.",
    "controller.quorum.voters": "KRaft: the controllers as id@host:port.",
    "broker.heartbeat.interval.ms": "KRaft: time between two heartbeats to the controller, in ms.",
    "broker.session.timeout.ms": "KRaft: time without a heartbeat after which a broker counts as dead, in ms.",
    "early.start.listeners": "KRaft: listeners that serve before the authorizer is ready.",
    "eligible.leader.replicas.enable": "KRaft: whether replicas that left the ISR with all data may lead.",
    "initial.broker.registration.timeout.ms": "KRaft: time a starting broker tries to register, in ms.",
    "metadata.log.dir": "KRaft: directory of the metadata log.",
    "metadata.log.max.record.bytes.between.snapshots": "KRaft: bytes of the metadata log between two snapshots.",
    "metadata.log.max.snapshot.interval.ms": "KRaft: longest time between two snapshots, in ms.",
    "metadata.log.segment.bytes": "KRaft: size of a segment of the metadata log, in bytes.",
    "metadata.log.segment.min.bytes": "KRaft: smallest size of a segment of the metadata log, for tests.",
    "metadata.log.segment.ms": "KRaft: age at which a segment of the metadata log rolls, in ms.",
    "metadata.max.idle.interval.ms": "KRaft: time after which an idle controller writes a no-op record, in ms.",
    "metadata.max.retention.bytes": "KRaft: bytes of metadata log and snapshots that are kept.",
    "metadata.max.retention.ms": "KRaft: age up to which metadata log and snapshots are kept, in ms.",
    "server.max.startup.time.ms": "KRaft: time a start may take before the process ends itself, in ms.",
    "unclean.leader.election.interval.ms": "KRaft: time between two looks for partitions that need an unclean "
    "election, in ms.",
    "unstable.api.versions.enable": "Whether API versions that are not final are served.",
    "unstable.feature.versions.enable": "Whether feature versions that are not final are supported.",
    "max.request.partition.size.limit": "KRaft: most partitions in an answer to DescribeTopicPartitions.",
}
