"""Keys that only this broker has."""

from __future__ import annotations

KEYS: dict[str, str] = {
    "odradek.client.telemetry.enable": "Whether clients may push their metrics to this broker (KIP-714), as the "
    "subscriptions of the entity client-metrics ask; /metrics shows them. Apache Kafka in ZooKeeper mode does not "
    "offer it.",
    "odradek.client.telemetry.max.series": "Most series of clients that /metrics shows; more are dropped and counted. "
    "A tenth of it may be from one client.",
    "odradek.console.access": "Whom the console at /console/ on odradek.http.port answers: loopback, this machine "
    "only; any, whoever can reach the port; off, nobody (docs/console.md).",
    "odradek.console.hosts": "Names, besides localhost and addresses, by which browsers may call the console.",
    "odradek.console.listener": "The listener through which the console asks the cluster. Not set, the first with a "
    "login by name and password, or the first in plain text where there is no authorizer.",
    "odradek.console.peers": "Where the consoles of other brokers are, for links to them: ID=URL items.",
    "odradek.console.write": "Whether the console may change things: create and delete topics, alter configurations, "
    "delete records and reset offsets.",
    "odradek.http.host": "Address on which metrics, health and the console are served over HTTP. Encryption is not "
    "there, nor a login for metrics, so anything but loopback shows them to everybody who can reach it.",
    "odradek.http.port": "Port on which /metrics, /health/live, /health/ready and /console/ are served over HTTP; "
    "0 takes a free one. Not set, nothing is served.",
    "odradek.log.cleaner.process": "Whether logs of a megabyte or more are compacted by a process of each cleaner "
    "thread's own, so that requests do not wait for the interpreter. It is there while it has work, with the table of "
    "keys and about 25 MB beside that. If it cannot be started, or dies, its thread does the work.",
    "odradek.log.dir": "Directory for log files (docs/logging.md). Not set, everything goes to standard error.",
    "odradek.log.file.backups": "How many full log files are kept beside the current one, for each kind.",
    "odradek.log.file.max.bytes": "Size at which a log file is set aside and a new one begun.",
    "odradek.log.format": "How a log line is written: text, or json with one object a line.",
    "odradek.log.log4j.file": "A log4j.properties that is read for the levels of loggers. Not set, the one that "
    "KAFKA_LOG4J_OPTS names, or that lies beside the server.properties, if there is any.",
    "odradek.log.message.downconversion.process": "Whether records are converted for consumers older than Kafka 0.11 "
    "by a process of its own, so that other requests do not wait for the interpreter. It begins with the first such "
    "fetch and ends when there has been none for three minutes; it has about 25 MB, and what it converts. If it cannot "
    "be started, or dies, the broker converts by itself. Only where the system has files in memory (Linux).",
    "odradek.metrics.partitions": "Whether /metrics shows the series of single partitions, about ten for each.",
    "odradek.sasl.login.timeout.ms": "Time in which a connection of a listener with SASL must have authenticated; else "
    "it is closed, up to a second later. With -1 only connections.max.idle.ms bounds one that is silent, as in Apache "
    "Kafka.",
}
