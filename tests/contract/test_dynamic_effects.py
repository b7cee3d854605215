"""Broker configs that are changed while the broker runs, each by what it does and not by what it says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.dev.polling import wait_until
from log.records.record import Record
from network.client.connection import Connection
from network.protocol.errors import ErrorCode
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.describe_producers import DescribeProducersRequest
from network.protocol.messages.describe_producers import TopicRequest as DescribeProducersTopic
from network.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.configs import change_configs

TOPIC, BROKER = 2, 4
WAIT_MS = 60_000
ANSWER_MS = 2_000
GZIP = 1
APPEND_TIME = 1
HOUR = 3_600_000
HOUR_MS = str(HOUR)

SETTINGS = {
    "producer.id.expiration.check.interval.ms": "200",
    "log.cleaner.backoff.ms": HOUR_MS,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.scheduler.interval.ms": "200",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"dynamic-effects-{request.param}"
    with running_cluster([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


@pytest.fixture
def admin(broker: Broker) -> Iterator[Connection]:
    """Connected before anything is limited."""
    with wire.connected(broker) as connection:
        yield connection


@contextlib.contextmanager
def changed(admin: Connection, resource: str = "0", **values: str) -> Iterator[None]:
    """With other configs, `_` in names for `.`; taken back at the end."""
    named = {name.replace("_", "."): value for name, value in values.items()}
    change_configs(admin.call, BROKER, resource, named)
    try:
        yield
    finally:
        change_configs(admin.call, BROKER, resource, dict.fromkeys(named))


def answers(connection: Connection) -> bool:
    """Whether the broker answers within a while; a connection that it has closed does not."""
    try:
        connection.call(ApiVersionsRequest(), 0, ANSWER_MS)
    except (OSError, EOFError):
        return False
    return True


def lets_in(broker: Broker) -> bool:
    try:
        with wire.connected(broker) as connection:
            return answers(connection)
    except (OSError, EOFError):
        return False


def producer_id(broker: Broker, transactional_id: str | None) -> InitProducerIdResponse:
    """A new one; a broker that has just started may have to fetch some first."""
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    found: list[InitProducerIdResponse] = []

    def has_one() -> bool:
        found[:] = [wire.call(broker, asked, 4)]
        return found[0].error_code == 0

    assert wait_until(has_one, CLOCK, WAIT_MS)
    return found[0]


LIMITS = [
    {"max.connections.per.ip": "1"},
    {"max.connections.per.ip.overrides": "127.0.0.1:1"},
    {"max.connections.per.ip.overrides": "localhost:1"},
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: "=".join(*limit.items()))
def test_connections_of_one_address_are_limited(broker: Broker, admin: Connection, limit: dict[str, str]) -> None:
    """`admin` takes the one that is left."""
    assert lets_in(broker)
    change_configs(admin.call, BROKER, "0", limit)
    try:
        assert wait_until(lambda: not lets_in(broker), CLOCK, WAIT_MS)
        assert answers(admin)
    finally:
        change_configs(admin.call, BROKER, "0", dict.fromkeys(limit))
    assert wait_until(lambda: lets_in(broker), CLOCK, WAIT_MS)


@pytest.mark.parametrize("resource", ["0", ""], ids=["own", "all"])
def test_large_batches_are_refused(cluster: Cluster, broker: Broker, admin: Connection, resource: str) -> None:
    topic = wire.create_topic(cluster)

    def outcome() -> int:
        return int(wire.produce(broker, topic, wire.batch([b"x" * 2_000])).error_code)

    assert outcome() == 0
    with changed(admin, resource, message_max_bytes="1000"):
        assert wait_until(lambda: outcome() == ErrorCode.MESSAGE_TOO_LARGE, CLOCK, WAIT_MS)
    assert wait_until(lambda: outcome() == 0, CLOCK, WAIT_MS)


def test_batches_are_compressed_and_stamped(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    topic = wire.create_topic(cluster)

    def last_attributes() -> int:
        offset = wire.produce(broker, topic, wire.batch([b"x"])).base_offset
        return bytes(wire.fetch(broker, topic, offset).records or b"")[22]  # type: ignore[arg-type]

    assert last_attributes() == 0
    with changed(admin, compression_type="gzip", log_message_timestamp_type="LogAppendTime"):
        assert wait_until(lambda: last_attributes() == GZIP | APPEND_TIME << 3, CLOCK, WAIT_MS)
    assert wait_until(lambda: last_attributes() == 0, CLOCK, WAIT_MS)


def test_segments_roll_and_old_ones_go(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    topic = wire.create_topic(cluster)

    def first_offset_after_writing() -> int:
        wire.produce(broker, topic, wire.batch([b"x" * 100]))
        return int(wire.list_offset(broker, topic, -2).offset)

    assert first_offset_after_writing() == 0
    with changed(admin, log_segment_bytes="200", log_retention_bytes="300", log_segment_delete_delay_ms="0"):
        assert wait_until(lambda: first_offset_after_writing() > 0, CLOCK, WAIT_MS)


def test_producers_are_forgotten(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    topic = wire.create_topic(cluster)
    made = producer_id(broker, None)
    sent = wire.batch([b"x"], producer_id=made.producer_id, producer_epoch=made.producer_epoch, base_sequence=0)
    assert wire.produce(broker, topic, sent).error_code == 0

    def producers() -> int:
        asked = DescribeProducersTopic(name=topic, partition_indexes=[0])
        (found,) = wire.call(broker, DescribeProducersRequest(topics=[asked]), 0).topics
        return len(found.partitions[0].active_producers)

    assert producers() == 1
    with changed(admin, producer_id_expiration_ms="1"):
        assert wait_until(lambda: producers() == 0, CLOCK, WAIT_MS)


def test_partitions_of_transactions_are_verified(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    topic = wire.create_topic(cluster)
    with cluster.client() as client:
        client.coordinator("unverified", 1)
    made = producer_id(broker, "unverified")

    def outcome() -> int:
        records = wire.batch(
            [b"x"],
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = wire.produce_request(topic, records)
        request.transactional_id = "unverified"
        return int(wire.call(broker, request, 9).responses[0].partition_responses[0].error_code)

    assert outcome() == ErrorCode.INVALID_TXN_STATE
    with changed(admin, transaction_partition_verification_enable="false"):
        assert wait_until(lambda: outcome() == 0, CLOCK, WAIT_MS)


def test_the_cleaner_works_on(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    """It has looked once, before anything was there, and would look again in an hour."""
    topic = wire.create_topic(cluster, configs={"cleanup.policy": "compact", "segment.bytes": "300"})
    for _ in range(10):
        assert wire.produce(broker, topic, wire.batch([b"v" * 100], keys=[b"k"])).error_code == 0

    def first_record() -> int:
        return int(wire.records_of(wire.fetch(broker, topic, 0))[0].offset)

    assert first_record() == 0
    with changed(admin, "", log_cleaner_backoff_ms="100"):
        assert wait_until(lambda: first_record() > 0, CLOCK, WAIT_MS)


# -- defaults of topics: each shows in a topic that was there before, and goes when it is taken back ------------------

OLD_MS, FUTURE_MS = 86_400_000, 1_800_000


class Log:
    """A topic that has no config of its own, unless it is given some."""

    def __init__(self, cluster: Cluster, **configs: str) -> None:
        self.broker = cluster.brokers[0]
        self.name = wire.create_topic(cluster, configs={key.replace("_", "."): each for key, each in configs.items()})
        self.directory = self.broker.replica(self.name, 0)
        self._day_ms = wire.now_ms() - 6 * OLD_MS

    def produced(self, **options: Any) -> int:
        """The error code of one more record."""
        return int(wire.produce(self.broker, self.name, wire.batch([b"x" * 100], **options)).error_code)

    def segments(self) -> list[Path]:
        """Their files, oldest first."""
        return sorted(self.directory.glob("*.log"))

    def rolls(self) -> bool:
        """Whether a new segment begins with one of some records."""
        before = self.segments()[-1].name
        for _ in range(4):
            assert self.produced() == 0
        return self.segments()[-1].name != before

    def unequal(self) -> bool:
        """Whether segments differ in length, when a record comes every ten minutes; it takes them from the past."""
        first = len(self.segments())
        for _ in range(40):
            self._day_ms += HOUR // 6
            assert self.produced(timestamps=[self._day_ms]) == 0
        starts = [int(path.stem) for path in self.segments()[first:]]
        return len({after - before for before, after in pairwise(starts)}) > 1

    def write(self, key: bytes, values: Sequence[bytes | None]) -> None:
        """A batch each."""
        for value in values:
            assert wire.produce(self.broker, self.name, wire.batch([value], keys=[key])).error_code == 0

    def records(self) -> Iterator[Record]:
        """All; a fetch ends with its segment."""
        offset = 0
        while found := wire.records_of(wire.fetch(self.broker, self.name, offset)):
            yield from found
            offset = found[-1].offset + 1

    def first_record(self) -> int:
        """The offset of the first one whose key is `k`."""
        return next(each.offset for each in self.records() if each.key == b"k")

    def is_flushed(self) -> bool:
        return self._checkpoint("recovery-point-offset-checkpoint") > 0

    def cleaned_to(self) -> int:
        return self._checkpoint("cleaner-offset-checkpoint")

    def _checkpoint(self, file: str) -> int:
        """What a checkpoint file of the log directory says of it; 0: nothing yet."""
        path = self.directory.parent / file
        lines = path.read_text().splitlines() if path.exists() else []
        return next((int(line.split()[2]) for line in lines if line.startswith(f"{self.name} 0 ")), 0)

    def fetched(self, version: int) -> int:
        return int(wire.fetch(self.broker, self.name, 0, version=version).error_code)

    def size_of_one(self) -> int:
        """Bytes of a batch as it is stored."""
        values = [b"%08x" % (number * 2_654_435_761 % 2**32) for number in range(300)]
        times = [wire.now_ms()] * len(values)  # else their differences would be compressed with them
        offset = wire.produce(self.broker, self.name, wire.batch(values, timestamps=times)).base_offset
        return len(bytes(wire.fetch(self.broker, self.name, offset).records or b""))  # type: ignore[arg-type]


# key -> its value, what else is set beside it, and what holds while it is set and not otherwise.
DEFAULTS: dict[str, tuple[str, dict[str, str], Callable[[Log], bool]]] = {
    "log.cleanup.policy": ("compact", {}, lambda log: log.produced() == ErrorCode.INVALID_RECORD),
    "log.message.downconversion.enable": (
        "false", {}, lambda log: log.produced() == 0 and log.fetched(2) == ErrorCode.UNSUPPORTED_VERSION,
    ),
    "log.message.timestamp.before.max.ms": (
        "60000", {}, lambda log: log.produced(timestamps=[wire.now_ms() - OLD_MS]) == ErrorCode.INVALID_TIMESTAMP,
    ),
    "log.message.timestamp.after.max.ms": (
        "60000", {}, lambda log: log.produced(timestamps=[wire.now_ms() + FUTURE_MS]) == ErrorCode.INVALID_TIMESTAMP,
    ),
    "log.message.timestamp.difference.max.ms": (
        "60000", {}, lambda log: log.produced(timestamps=[wire.now_ms() - OLD_MS]) == ErrorCode.INVALID_TIMESTAMP,
    ),
    "log.roll.ms": ("1", {}, Log.rolls),
    "log.roll.jitter.ms": (HOUR_MS, {"log.roll.ms": HOUR_MS}, Log.unequal),
    "log.segment.bytes": ("200", {}, Log.rolls),
    "log.preallocate": (
        "true", {"log.segment.bytes": "4000"},
        lambda log: [log.produced() for _ in range(40)] == [0] * 40 and log.segments()[-1].stat().st_size == 4000,
    ),
    "log.index.size.max.bytes": (
        "800", {"log.segment.bytes": "400"},
        lambda log: log.rolls() and log.segments()[-1].with_suffix(".index").stat().st_size == 800,
    ),
    "log.index.interval.bytes": (
        "0", {"log.segment.bytes": "400"},
        lambda log: log.rolls() and log.rolls() and log.segments()[-2].with_suffix(".index").stat().st_size > 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", DEFAULTS)
def test_defaults_of_topics(cluster: Cluster, admin: Connection, key: str) -> None:
    value, beside, holds = DEFAULTS[key]
    log = Log(cluster)
    with contextlib.ExitStack() as taken_back:
        if beside:
            change_configs(admin.call, BROKER, "", beside)
            taken_back.callback(change_configs, admin.call, BROKER, "", dict.fromkeys(beside))
            if "log.segment.bytes" in beside:
                assert wait_until(log.rolls, CLOCK, WAIT_MS)
        assert log.produced() == 0
        assert not holds(log)
        change_configs(admin.call, BROKER, "", {key: value})
        taken_back.callback(change_configs, admin.call, BROKER, "", {key: None})
        assert wait_until(lambda: holds(log), CLOCK, WAIT_MS)
    assert wait_until(lambda: not holds(log), CLOCK, WAIT_MS)


def test_records_are_kept_for_a_time(cluster: Cluster, broker: Broker, admin: Connection) -> None:
    log = Log(cluster)
    assert log.produced(timestamps=[wire.now_ms() - 60_000]) == 0
    with changed(admin, "", log_retention_ms="1000"):
        assert wait_until(lambda: wire.list_offset(broker, log.name, -2).offset == 1, CLOCK, WAIT_MS)


LOWEST = {"compression.gzip.level": "1", "compression.lz4.level": "1", "compression.zstd.level": "-100"}


@pytest.mark.parametrize("key", LOWEST)
def test_batches_are_compressed_harder(cluster: Cluster, admin: Connection, key: str) -> None:
    log = Log(cluster)
    plain = log.size_of_one()
    with changed(admin, "", compression_type=key.split(".")[1]):
        assert wait_until(lambda: log.size_of_one() < plain, CLOCK, WAIT_MS)
        usual = log.size_of_one()
        change_configs(admin.call, BROKER, "", {key: LOWEST[key]})
        try:
            assert wait_until(lambda: log.size_of_one() != usual, CLOCK, WAIT_MS)
        finally:
            change_configs(admin.call, BROKER, "", {key: None})
        assert wait_until(lambda: log.size_of_one() == usual, CLOCK, WAIT_MS)


@pytest.mark.parametrize("key", ["log.flush.interval.messages", "log.flush.interval.ms"])
def test_logs_are_forced_to_disk(cluster: Cluster, admin: Connection, key: str) -> None:
    assert not forces(cluster)
    with changed(admin, "", **{key: "1"}):
        log = Log(cluster)
        assert wait_until(lambda: log.produced() == 0 and log.is_flushed(), CLOCK, WAIT_MS)
    # Brokers hear of it later: the next test would begin with what this one has set.
    assert wait_until(lambda: not forces(cluster), CLOCK, WAIT_MS)


def forces(cluster: Cluster) -> bool:
    """Whether a new record is forced to disk by the broker's own configs.

    What is on the disk has an offset in a file there; of two logs the one that must be flushed is told first.
    """
    log, control = Log(cluster), Log(cluster, flush_messages="1")
    assert (log.produced(), control.produced()) == (0, 0)
    assert wait_until(control.is_flushed, CLOCK, WAIT_MS)
    return log.is_flushed()


# -- the cleaner: one thread, which takes the log with the largest dirty part first -----------------------------------

SOON = {"log.cleaner.backoff.ms": "100"}


def compacted(cluster: Cluster, **configs: str) -> Log:
    return Log(cluster, cleanup_policy="compact", segment_bytes="300", **configs)


def clean_on(log: Log) -> None:
    """Write until the cleaner has come to this log, and once more: it looked anew for it, with the configs of then.

    Whatever was wholly dirty before is cleaned before the second time, if it may be.
    """
    for _ in range(2):
        before = log.first_record()
        log.write(b"k", [b"v" * 100] * 10)
        assert wait_until(lambda before=before: log.first_record() > before, CLOCK, WAIT_MS)  # type: ignore[misc]


NEVER = {"log.cleaner.min.cleanable.ratio": "1"}
KEPT_BACK: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "log.cleaner.min.cleanable.ratio": (NEVER, {"log.cleaner.min.cleanable.ratio": None}),
    "log.cleaner.min.compaction.lag.ms": (
        {"log.cleaner.min.compaction.lag.ms": HOUR_MS}, {"log.cleaner.min.compaction.lag.ms": None},
    ),
    "log.cleaner.max.compaction.lag.ms": (NEVER, {"log.cleaner.max.compaction.lag.ms": "1"}),
}  # fmt: skip
"""What keeps a log from the cleaner, and what gives it to it then."""


@pytest.mark.parametrize("key", KEPT_BACK)
def test_when_a_log_is_cleaned(cluster: Cluster, admin: Connection, key: str) -> None:
    keeps, gives = KEPT_BACK[key]
    control = compacted(cluster, min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="0")
    control.write(b"k", [b"v"])
    with changed(admin, "", **keeps, log_message_downconversion_enable="false"):
        # All defaults of topics are taken at once, and this one shows.
        assert wait_until(lambda: control.fetched(2) == ErrorCode.UNSUPPORTED_VERSION, CLOCK, WAIT_MS)
        log = compacted(cluster)
        log.write(b"k", [b"v" * 100] * 10)
        with changed(admin, "", **SOON):
            clean_on(control)
            assert log.first_record() == 0
            change_configs(admin.call, BROKER, "", gives)
            try:
                assert wait_until(lambda: log.first_record() > 0, CLOCK, WAIT_MS)
            finally:
                change_configs(admin.call, BROKER, "", dict.fromkeys(gives))


def test_how_long_tombstones_stay(cluster: Cluster, admin: Connection) -> None:
    log = compacted(cluster)
    log.write(b"t", [b"v", None])
    log.write(b"k", [b"v"])
    with changed(admin, "", **SOON):
        clean_on(log)
        written = [b"t"]
        assert b"t" in {record.key for record in log.records()}

        def one_is_gone() -> bool:
            written.append(b"t%d" % len(written))
            log.write(written[-1], [None])
            log.write(b"k", [b"v" * 100] * 4)
            return not set(written) <= {record.key for record in log.records()}

        with changed(admin, "", log_cleaner_delete_retention_ms="0"):
            assert wait_until(one_is_gone, CLOCK, WAIT_MS)


FEW_KEYS = {"log.cleaner.io.buffer.load.factor": "0.01"}
"""Of some 5.5 million slots of the usual buffer, or of some 43,000 of a small one."""
MEMORY = [
    ({"log.cleaner.io.buffer.load.factor": "0.0001"}, True),
    (FEW_KEYS, False),
    ({**FEW_KEYS, "log.cleaner.dedupe.buffer.size": "1048577"}, True),
]


@pytest.mark.parametrize(("values", "is_part"), MEMORY, ids=["factor", "more", "buffer"])
def test_how_many_keys_are_cleaned_at_once(
    cluster: Cluster, admin: Connection, values: dict[str, str], is_part: bool
) -> None:
    """A log of a thousand keys is cleaned in one pass, or a part of it is and the rest is too little for another."""
    control = compacted(cluster)
    log = Log(cluster, cleanup_policy="delete", segment_bytes="4000", min_cleanable_dirty_ratio="0.9")
    for number in range(20):
        keys = [b"%d-%d" % (number, each) for each in range(50)]
        assert wire.produce(log.broker, log.name, wire.batch(keys, keys=keys)).error_code == 0
    control.write(b"k", [b"v"])
    with changed(admin, "", **values, **SOON):
        clean_on(control)
        change_configs(admin.call, TOPIC, log.name, {"cleanup.policy": "compact"})
        assert wait_until(lambda: log.cleaned_to() > 0, CLOCK, WAIT_MS)
        assert (log.cleaned_to() < int(log.segments()[-1].stem)) == is_part


def test_how_fast_logs_are_cleaned(cluster: Cluster, admin: Connection) -> None:
    """At 20 kB a second, 50 kB a pass. What has been read and written too fast is waited for at the first look after
    0.3 s, which may be a later pass's: one of them takes seconds, while without a limit each takes 0.1 to 0.4 s."""
    control, log = compacted(cluster), Log(cluster, cleanup_policy="compact", segment_bytes="20000")
    control.write(b"k", [b"v"])
    log.write(b"k", [b"v"])

    def pass_ms() -> int:
        begun = CLOCK.monotonic_ms()
        before = log.first_record()
        log.write(b"k", [b"v" * 5_000] * 10)
        assert wait_until(lambda: log.first_record() > before, CLOCK, WAIT_MS)
        return CLOCK.monotonic_ms() - begun

    with changed(admin, "", **SOON, log_cleaner_io_max_bytes_per_second="20000"):
        clean_on(control)
        assert any(pass_ms() > 2_000 for _ in range(20))
