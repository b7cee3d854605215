"""Every option of the ``odradek`` format and of Spark's Kafka connector: what the connector does with it, what is done
here, and why where that differs.

The checks of names and ``docs/spark-options.md`` are made from this table (``python -m spark_jobs.option_table``).
Columns: the name; where it is meant (R: batch reads, S: streaming reads, W: writes); the connector's default, ``-`` for
an option that it does not have; the default here, or what is done; and what differs, with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class OptionError(ValueError):
    """An option is missing, unknown in its place, or has a value it can't have."""


class Taken(Enum):
    """What happens to an option."""

    HONOURED = "as the connector"
    DIFFERENT = "taken, differs"
    OURS = "only here"
    NEEDLESS = "taken, nothing to do"
    REFUSED = "refused"


class Option(NamedTuple):
    """A row of the table."""

    name: str
    where: str
    connector: str
    ours: str
    taken: Taken
    why: str = ""


_H, _D, _O, _N, _R = Taken.HONOURED, Taken.DIFFERENT, Taken.OURS, Taken.NEEDLESS, Taken.REFUSED

_STORE = "JKS, PKCS12 or PEM; the file must be on driver and executors"
_TLS = [
    ("ssl.truststore.location", "the system's", _STORE),
    ("ssl.truststore.type", "JKS", ""),
    ("ssl.truststore.password", "none", ""),
    ("ssl.truststore.certificates", "none", "PEM in the option itself: no file is needed"),
    ("ssl.keystore.location", "none", _STORE),
    ("ssl.keystore.type", "JKS", ""),
    ("ssl.keystore.password", "none", ""),
    ("ssl.keystore.key", "none", "PEM in the option itself"),
    ("ssl.keystore.certificate.chain", "none", "PEM in the option itself"),
    ("ssl.key.password", "none", ""),
    ("ssl.endpoint.identification.algorithm", "https", ""),
    ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", ""),
    ("ssl.cipher.suites", "any", "of TLS 1.3 those that OpenSSL offers, all together"),
]

_TOKENS = [
    ("sasl.login.callback.handler.class", "unsecured tokens", "OAuthBearerLoginCallbackHandler, or a Python class"),
    ("sasl.oauthbearer.token.endpoint.url", "none", ""),
    ("sasl.oauthbearer.header.urlencode", "false", ""),
    ("sasl.oauthbearer.sub.claim.name", "sub", ""),
    ("sasl.login.retry.backoff.ms", "100", ""),
    ("sasl.login.retry.backoff.max.ms", "10000", ""),
    ("sasl.login.refresh.window.factor", "0.8", ""),
    ("sasl.login.refresh.window.jitter", "0.05", ""),
    ("sasl.login.refresh.min.period.seconds", "60", ""),
    ("sasl.login.refresh.buffer.seconds", "300", ""),
]

_SOURCE = [
    Option("kafka.bootstrap.servers", "RSW", "required", "required", _H),
    Option("subscribe", "RS", "one of three", "one of three", _H),
    Option(
        "subscribePattern",
        "RS",
        "one of three",
        "one of three",
        _D,
        "Java's classes are translated for the characters that names of topics have; `\\X`, `\\R`, `\\G` and flags in "
        "the middle are refused by name: this is Python",
    ),
    Option("assign", "RS", "one of three", "one of three", _H),
    Option(
        "startingOffsets",
        "RS",
        "earliest; streams latest",
        "earliest; streams latest",
        _D,
        "also `group`: where the group of odradek.group.id stands",
    ),
    Option("startingTimestamp", "RS", "none", "none", _H),
    Option("startingOffsetsByTimestamp", "RS", "none", "none", _H),
    Option("startingOffsetsByTimestampStrategy", "RS", "error", "error", _H),
    Option(
        "endingOffsets",
        "R",
        "latest",
        "latest",
        _D,
        "an end that is not there yet is seen when the query is planned, not after kafkaConsumer.pollTimeoutMs",
    ),
    Option("endingTimestamp", "R", "latest", "latest", _H),
    Option("endingOffsetsByTimestamp", "R", "latest", "latest", _H),
    Option("failOnDataLoss", "RS", "true", "true", _H),
    Option("includeHeaders", "RS", "false", "false", _H),
    Option("minPartitions", "RS", "none", "none", _D, "at least so many tasks, if there are so many offsets"),
    Option("maxRecordsPerPartition", "RS", "none", "none", _D, "divides batch reads to the latest offset too"),
    Option("maxOffsetsPerTrigger", "S", "none", "none", _H),
    Option("minOffsetsPerTrigger", "S", "none", "none", _H),
    Option("maxTriggerDelay", "S", "15m", "15m", _H),
    Option("kafkaConsumer.pollTimeoutMs", "RS", "120000", "120000", _D, "how long a task looks for records or leader"),
    Option("fetchOffset.numRetries", "RS", "3", "3", _D, "while a leader moves it is asked for longer, up to a minute"),
    Option("fetchOffset.retryIntervalMs", "RS", "10", "10", _D, "at least 100 ms are waited"),
    Option("groupIdPrefix", "RS", "spark-kafka-source", "no group", _N, "no consumer group is used to read"),
    Option("kafka.group.id", "RS", "made up", "no group", _N, "no consumer group is used to read"),
    Option("odradek.group.id", "RS", "-", "none", _O, "streams commit their offsets to this group for all to see"),
    Option("odradek.group.reset", "RS", "-", "earliest", _O, "start of partitions of which the group has no offset"),
    Option("columns", "RS", "-", "all", _O, "Spark can't tell a Python source which columns a query needs"),
    Option("kafka.isolation.level", "RS", "read_uncommitted", "read_uncommitted", _H),
    Option("kafka.client.rack", "RS", "none", "none", _H),
    Option("kafka.client.id", "RSW", "made up", "odradek-spark", _H),
    Option("kafka.fetch.max.bytes", "RS", "52428800", "52428800", _H),
    Option(
        "kafka.max.partition.fetch.bytes",
        "RS",
        "1048576",
        "8388608",
        _D,
        "one answer at a time is decoded as a whole, and larger ones are faster; a task's memory is a few times this",
    ),
    Option("kafka.fetch.min.bytes", "RS", "1", "1", _H),
    Option("kafka.fetch.max.wait.ms", "RS", "500", "500", _H),
    Option("kafka.security.protocol", "RSW", "PLAINTEXT", "PLAINTEXT", _H),
    Option(
        "kafka.sasl.mechanism",
        "RSW",
        "GSSAPI",
        "none",
        _D,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI with `serviceName` in the login module",
    ),
    Option("kafka.sasl.jaas.config", "RSW", "none", "none", _H, "also with a delegation token's `tokenauth=true`"),
    *[Option(f"kafka.{name}", "RSW", default, default, _H, why) for name, default, why in _TOKENS],
    *[Option(f"kafka.{name}", "RSW", default, default, _H, why) for name, default, why in _TLS],
    Option("kafka.sasl.login.connect.timeout.ms", "RSW", "none", "10000", _D, "no login waits for ever"),
    Option("kafka.sasl.login.read.timeout.ms", "RSW", "none", "10000", _D, "no login waits for ever"),
    Option("kafka.ssl.protocol", "RSW", "TLSv1.3", "no use", _N, "kafka.ssl.enabled.protocols says which versions"),
]

_SINK = [
    Option("topic", "W", "the column", "the column", _H),
    Option("includeTimestamp", "W", "-", "false", _O, "the time of a record from the column timestamp"),
    Option("odradek.delivery", "W", "-", "at-least-once", _O, "`effectively-once` writes in transactions"),
    Option("odradek.write.id", "W", "-", "none", _O, "tells writes of one batch, or batch jobs, apart"),
    Option("odradek.replay.check", "W", "-", "content", _O, "`count`: rows may differ when a batch is repeated"),
    Option(
        "kafka.transaction.timeout.ms",
        "W",
        "60000",
        "900000",
        _D,
        "with odradek.delivery: longer than a batch takes; only a query that is not started again leaves one open",
    ),
    Option("checkpointLocation", "SW", "Spark's own", "Spark's own", _H),
    Option("path", "RSW", "no use", "no use", _N, "Spark passes it with save(path) and load(path)"),
    Option("kafka.acks", "W", "all", "all", _D, "0 is refused: nobody would notice a loss"),
    Option("kafka.enable.idempotence", "W", "true", "true", _H),
    Option("kafka.compression.type", "W", "none", "none", _H),
    Option("kafka.batch.size", "W", "16384", "524288", _D, "the rows are at hand: larger ones cost no time"),
    Option("kafka.linger.ms", "W", "0", "none", _N, "batches are made of the rows at hand, and none is sent early"),
    Option("kafka.buffer.memory", "W", "33554432", "33554432", _H),
    Option(
        "kafka.max.request.size",
        "W",
        "1048576",
        "1048576",
        _D,
        "a record that is larger is sent alone",
    ),
    Option("kafka.max.in.flight.requests.per.connection", "W", "5", "1", _N, "one request is in flight, never more"),
    Option("kafka.request.timeout.ms", "W", "30000", "30000", _H),
    Option("kafka.delivery.timeout.ms", "W", "120000", "120000", _H),
    Option("kafka.max.block.ms", "W", "60000", "60000", _H),
]


def _refused(where: str, why: str, names: str, connector: str = "Kafka's") -> list[Option]:
    return [Option(f"kafka.{name}", where, connector, "", _R, why) for name in names.split()]


_REFUSED = [
    *_refused("RS", "use startingOffsets: the source keeps offsets itself", "auto.offset.reset", "refused"),
    *_refused("RS", "keys come as binary: decode them with DataFrame operations", "key.deserializer", "refused"),
    *_refused("RS", "values come as binary: decode them with DataFrame operations", "value.deserializer", "refused"),
    *_refused("RS", "progress is in the checkpoint; odradek.group.id shows it", "enable.auto.commit", "refused"),
    *_refused("RS", "could change records: transform the DataFrame instead", "interceptor.classes", "refused"),
    *_refused("RS", "drop it: odradek.group.id commits after each batch", "auto.commit.interval.ms"),
    *_refused(
        "RS",
        "drop it: no consumer group is joined",
        "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms group.instance.id group.protocol "
        "group.remote.assignor partition.assignment.strategy internal.leave.group.on.close",
    ),
    *_refused("RS", "drop it: kafka.max.partition.fetch.bytes bounds the memory of a task", "max.poll.records"),
    *_refused("RS", "drop it: checksums are not looked at; odradek-segments does with verifyChecksums", "check.crcs"),
    *_refused("RS", "drop it: reading makes no topic", "allow.auto.create.topics"),
    *_refused("RS", "drop it: internal topics are read when they are named", "exclude.internal.topics"),
    *_refused("RS", "use kafkaConsumer.pollTimeoutMs", "request.timeout.ms default.api.timeout.ms"),
    *_refused("W", "keys are written as they are: use DataFrame operations", "key.serializer", "refused"),
    *_refused("W", "values are written as they are: use DataFrame operations", "value.serializer", "refused"),
    *_refused("W", "could change records: transform the DataFrame instead", "interceptor.classes"),
    *_refused("W", "use odradek.delivery, which gives each task one of its own", "transactional.id"),
    *_refused("W", "use a column partition: it says where a row goes", "partitioner.class partitioner.ignore.keys"),
    *_refused(
        "W",
        "drop it: rows without key change partition with each batch",
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms",
    ),
    *_refused("W", "use kafka.delivery.timeout.ms, which bounds all tries", "retries"),
    *_refused(
        "W",
        "drop it: the codecs' own levels are used",
        "compression.gzip.level compression.lz4.level compression.zstd.level",
    ),
    *_refused("W", "drop it: metadata is asked for when it is needed", "metadata.max.idle.ms"),
    *_refused(
        "RSW",
        "drop it: this client sees to its connections itself",
        "client.dns.lookup connections.max.idle.ms metadata.max.age.ms receive.buffer.bytes send.buffer.bytes "
        "reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms "
        "socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms",
    ),
    *_refused(
        "RSW",
        "drop it: there are no metrics of Kafka's own client",
        "metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms "
        "auto.include.jmx.reporter enable.metrics.push",
    ),
    *_refused("RSW", "drop it: TLS is OpenSSL's, which has no such choice", "ssl.* security.providers"),
    *_refused("RSW", "drop it: the logins here have no such choice", "sasl.*"),
]

TABLE = (*_SOURCE, *_SINK, *_REFUSED)


def check_names(given: Iterable[str], where: str) -> None:
    """Raise OptionError unless every (lower-cased) name is an option that is taken there: ``R``, ``S`` or ``W``.

    All that is wrong is told at once, so that a query is moved in one step.
    """
    taken = {option.name.lower() for option in TABLE if option.taken is not Taken.REFUSED}
    refused = {
        option.name.lower(): option for option in TABLE if option.taken is Taken.REFUSED and where in option.where
    }
    wrong = []
    for name in sorted(set(given)):
        prefix = ".".join([*name.split(".")[:2], "*"])
        option = refused.get(name) or (refused.get(prefix) if name not in taken else None)
        if option is not None:
            wrong.append(f"option {name} is not supported: {option.why}")
        elif name not in taken:
            wrong.append(f"option {name} is not known{_nearest(name, where)}")
        elif name.startswith("kafka.") and not _is_meant(name, where):
            wrong.append(f"option {name} is not one of {'writes' if where == 'W' else 'reads'}: drop it")
    if wrong:
        raise OptionError("; ".join(wrong))


def _is_meant(name: str, where: str) -> bool:
    return any(where in option.where for option in TABLE if option.name.lower() == name)


def _nearest(name: str, where: str) -> str:
    """The option that was probably meant, in words."""
    names = {o.name.lower(): o.name for o in TABLE if o.taken is not Taken.REFUSED and where in o.where}
    plain = {each.removeprefix("kafka."): each for each in names}
    close = difflib.get_close_matches(name, names, 1) or [
        plain[each] for each in difflib.get_close_matches(name.removeprefix("kafka."), plain, 1)
    ]
    return f"; is {names[close[0]]} meant?" if close else ""


_WHERE = {"R": "batch reads", "S": "streams", "W": "writes"}


def markdown() -> str:
    """The table as a page."""
    lines = [
        "# Options of the `odradek` format beside Spark's Kafka connector",
        "",
        "Made from `spark_jobs/option_table.py` by `python -m spark_jobs.option_table > docs/spark-options.md`.",
        "An option that is not in this table is refused with the name of the nearest; the connector passes over it.",
        "",
        "| option | for | connector | odradek | | difference and why |",
        "|---|---|---|---|---|---|",
    ]
    for option in TABLE:
        where = "all" if option.where == "RSW" else ", ".join(_WHERE[each] for each in option.where)
        cells = [f"`{option.name}`", where, option.connector, option.ours or "refused", option.taken.value, option.why]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
