"""Replicas move between the log directories of their brokers while they are written, led and followed. Two minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, Kind
from tests.support.configs import set_broker_config
from tests.support.replication import (
    IdempotentLoad,
    check_replicas,
    create_topic,
    read_back,
    seen_partitions,
    wait_in_sync,
)

TOPIC = "moving"
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 2
NUMBERS = range(len(ASSIGNMENT))
WAIT_MS = 90_000
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "log.segment.delete.delay.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    # A rate of 1 byte/s lets one slice pass in so many seconds: the move of one small partition.
    "alter.log.dirs.replication.quota.window.num": "1000",
}


@pytest.fixture
def start(tmp_path: Path, chroot: str, request: pytest.FixtureRequest) -> Callable[[list[Kind]], Cluster]:
    def started(kinds: list[Kind]) -> Cluster:
        cluster = Cluster(kinds, tmp_path, chroot, SETTINGS)
        request.addfinalizer(cluster.stop)
        for broker in cluster.brokers:
            broker.settings["log.dirs"] = f"{broker.directory / 'first'},{broker.directory / 'second'}"
        cluster.start()
        create_topic(cluster, TOPIC, ASSIGNMENT)
        return cluster

    return started


def move(broker: Broker, number: int, directory: Path) -> None:
    topics = [AlterReplicaLogDirTopic(name=TOPIC, partitions=[number])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(directory), topics=topics)])
    answer = wire.call(broker, request, 2).results[0].partitions[0]
    assert ErrorCode.of(answer.error_code) is ErrorCode.NONE


def described(broker: Broker) -> dict[tuple[str, int, bool], int]:
    """Lag of each replica of the topic, by directory, partition and whether it is a copy being made."""
    response = wire.call(broker, DescribeLogDirsRequest(topics=None), 4)
    return {
        (Path(result.log_dir).name, entry.partition_index, entry.is_future_key): entry.offset_lag
        for result in response.results
        for topic in result.topics
        if topic.name == TOPIC
        for entry in topic.partitions
    }


def throttle_moves(broker: Broker, number: int, old: Path, new: Path) -> None:
    """Spend the rate of some seconds on one move, so that those after it stand still in their middle.

    What there is of a small log is copied by one read, and the copy takes the log's place at once; this returns when
    that is over or when the copy is behind.
    """
    set_rate(broker, "1")
    move(broker, number, new)
    was_copied = False

    def begun() -> bool:
        # How far the copy is behind is told as it was before a read that is being written down just now. So the answer
        # that counts is one that was asked for some time after there were records.
        nonlocal was_copied
        lag = described(broker).get((new.name, number, True))
        if lag is None:
            return not (old / f"{TOPIC}-{number}").exists()
        enough = was_copied and lag > 0
        was_copied = has_bytes(new.glob(f"{TOPIC}-{number}.*-future/*.log"))
        return enough

    assert wait_until(begun, CLOCK, WAIT_MS, 20), described(broker)


def has_bytes(paths: Iterable[Path]) -> bool:
    """Whether one of them is not empty; none if a name is gone, as a complete copy takes another at any time."""
    with suppress(FileNotFoundError):
        return any(path.stat().st_size for path in paths)
    return False


def other(broker: Broker, directory: Path) -> Path:
    (found,) = set(broker.log_dirs) - {directory}
    return found


def set_rate(broker: Broker, rate: str) -> None:
    """Bytes a second of moves on one broker."""
    set_broker_config(broker, replica_alter_log_dirs_io_max_bytes_per_second=rate)


def finish(cluster: Cluster, load: IdempotentLoad) -> None:
    wait_in_sync(cluster, TOPIC, WAIT_MS)
    load.wait_progress()
    load.finish()
    wait_in_sync(cluster, TOPIC)
    read = read_back(cluster, TOPIC, len(ASSIGNMENT))
    load.check(read)
    cluster.stop()
    check_replicas(cluster, {TOPIC: [len(read[number]) for number in NUMBERS]})


def test_leaders_and_followers_move_under_load(start: Callable[[list[Kind]], Cluster]) -> None:
    """There and back on all brokers, Kafka's too; one broker is killed with its moves not done."""
    kafka.require()
    cluster = start(["odradek", "odradek", "kafka"])
    load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    load.wait_progress()
    for _ in range(2):
        targets = {
            (b, number): other(b, b.replica(TOPIC, number).parent) for b in cluster.brokers for number in NUMBERS
        }
        for (broker, number), target in targets.items():
            move(broker, number, target)

        def moved(wanted: Iterable[tuple[tuple[Broker, int], Path]] = tuple(targets.items())) -> bool:
            return all((d.name, n, False) in described(b) for (b, n), d in wanted)

        assert wait_until(moved, CLOCK, WAIT_MS, 200), [described(broker) for broker in cluster.brokers]
        load.wait_progress()

    victim = cluster.brokers[0]
    set_rate(victim, "1")  # which the moves above have spent
    places = {number: other(victim, victim.replica(TOPIC, number).parent) for number in NUMBERS}
    for number, target in places.items():
        move(victim, number, target)
    load.wait_progress()
    assert sum(is_copy for _, _, is_copy in described(victim)) >= 2
    victim.kill()
    victim.wait_forgotten()
    load.wait_progress()
    victim.start()
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC, WAIT_MS)
    set_rate(victim, "100000000")
    wanted = {(directory.name, number, False) for number, directory in places.items()}
    assert wait_until(lambda: set(described(victim)) == wanted, CLOCK, WAIT_MS, 200), described(victim)
    finish(cluster, load)


@pytest.mark.parametrize("failing", ["new", "old"])
def test_a_directory_fails_in_the_middle_of_a_move(start: Callable[[list[Kind]], Cluster], failing: str) -> None:
    cluster = start(["odradek"] * 3)
    load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    load.wait_progress()
    victim = cluster.brokers[0]
    old = victim.replica(TOPIC, 0).parent
    new = other(victim, old)
    throttle_moves(victim, 0, old, new)
    for number in NUMBERS[1:]:
        if victim.replica(TOPIC, number).parent == old:
            move(victim, number, new)
    found = described(victim)
    place = {number: directory for directory, number, is_copy in found if not is_copy}
    copied = {number for _, number, is_copy in found if is_copy}
    assert copied
    broken = new if failing == "new" else old
    # What is open stays writable, as on a disk that is about to go; everything else fails.
    broken.rename(broken.with_suffix(".away"))
    broken.write_text("no directory")
    lost = {number for number in NUMBERS if place[number] == broken.name}
    left = {(directory, number, False) for number, directory in place.items() if number not in lost}
    if failing == "old":
        left |= {(new.name, number, True) for number in copied}

    def only_the_broken_one_is_gone() -> bool:
        wanted = {number: {1, 2} if number in lost else {0, 1, 2} for number in NUMBERS}
        seen = {number: isr for number, (_, _, isr) in seen_partitions(cluster.brokers[1], TOPIC).items()}
        return set(described(victim)) == left and seen == wanted

    assert wait_until(only_the_broken_one_is_gone, CLOCK, WAIT_MS, 200), described(victim)
    load.wait_progress()
    # A move to the broken directory, or of a replica in it, is refused.
    topics = [AlterReplicaLogDirTopic(name=TOPIC, partitions=[min(copied)])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(new), topics=topics)])
    answer = wire.call(victim, request, 2).results[0].partitions[0]
    assert ErrorCode.of(answer.error_code) is ErrorCode.KAFKA_STORAGE_ERROR

    victim.kill()
    broken.unlink()
    broken.with_suffix(".away").rename(broken)
    victim.start()
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC, WAIT_MS)
    set_rate(victim, "100000000")
    # What had been copied is there again, so the moves go on.
    wanted = {(new.name, number, False) for number in copied}
    assert wait_until(lambda: wanted <= set(described(victim)), CLOCK, WAIT_MS, 200), described(victim)
    finish(cluster, load)
