"""Groups of the consumer protocol on a log in memory: what is stored, what a failure undoes, and what time does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.consumer.assignors.spec import Members, PartitionCounts, Partitions
from broker.groups.consumer.model import MemberState
from broker.groups.consumer.states import ConsumerGroupState
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.records import keys
from log.records.record import BatchBuilder
from network.protocol.errors import ApiError
from network.protocol.errors import ErrorCode as E
from tests.support.consumer_groups import CONFIG, Client, consumer_coordinator, group_of, stored_state
from tests.support.groups import PARTITIONS, Coordinator
from tests.support.internal_topic import MemoryTopic


@pytest.fixture
def coordinator() -> Coordinator:
    made = consumer_coordinator()
    made.topics.set("t", 4)
    return made


def loaded(coordinator: Coordinator) -> Coordinator:
    """The next coordinator of the same partitions."""
    made = consumer_coordinator(coordinator.log, clock=coordinator.clock)
    made.topics = coordinator.topics
    return made


def live_keys(log: MemoryTopic) -> set[bytes]:
    """Keys that a compacted log would still have a value of."""
    values: dict[bytes, bytes | None] = {}
    for key, value in log.entries():
        values[key] = value
    return {key for key, value in values.items() if value is not None}


def settle(*members: Client) -> None:
    for _ in range(6):
        for member in members:
            member.beat()


# --- records ---


def test_the_records_of_a_join(coordinator: Coordinator) -> None:
    Client(coordinator, "m", "t").join()
    versions = [keys.decode_consumer(key)[0] for key, _ in coordinator.log.entries()]
    assert versions == [5, 4, 3, 7, 6, 8]
    assert len([batch for batches in coordinator.log.batches.values() for batch in batches]) == 1


def test_a_heartbeat_that_changes_nothing_writes_nothing(coordinator: Coordinator) -> None:
    member = Client(coordinator, "m", "t")
    member.join()
    before = len(coordinator.log.entries())
    result = member.beat()
    assert (result.error, result.epoch, result.assignment) == (E.NONE, 1, None)
    assert len(coordinator.log.entries()) == before


def test_the_next_coordinator_knows_the_same(coordinator: Coordinator) -> None:
    coordinator.topics.set("extra-1", 2)
    members = [
        Client(coordinator, "a", "t", instance_id="i", rack_id="r", assignor="range"),
        Client(coordinator, "b", "t", "later"),
        Client(coordinator, "c", regex="extra-.*"),
    ]
    for member in members:
        member.join()
        member.beat()
    coordinator.commit({"t-0": 5}, Committer("g", "b", None, members[1].epoch, knows_epochs=True))
    members[0].leave(-2)
    before = stored_state(group_of(coordinator))
    assert before["regexes"]
    assert before["static"]
    again = loaded(coordinator)
    assert stored_state(group_of(again)) == before
    # And its members go on with it.
    for member in members:
        member.coordinator = again
    members[0].join()
    settle(*members)
    assert group_of(again).state is ConsumerGroupState.STABLE


def test_revoking_members_are_loaded_with_their_time(coordinator: Coordinator) -> None:
    first, second = Client(coordinator, "a", "t"), Client(coordinator, "b", "t")
    first.join()
    second.join()
    first.beat(owned=None)
    assert group_of(coordinator).current("a").state is MemberState.UNREVOKED_PARTITIONS
    again = loaded(coordinator)
    second.coordinator = again
    for _ in range(6):
        again.advance(1_000)
        second.beat()
    assert set(group_of(again).members) == {"b"}


def test_deleting_leaves_no_record(coordinator: Coordinator) -> None:
    members = [Client(coordinator, name, "t", regex="t.*") for name in "ab"]
    for member in members:
        member.join()
    settle(*members)
    assert coordinator.admin.delete_groups(["g"]) == {"g": E.NON_EMPTY_GROUP}
    for member in members:
        member.leave()
    coordinator.commit({"t-0": 1})
    assert coordinator.admin.delete_groups(["g"]) == {"g": E.NONE}
    assert live_keys(coordinator.log) == set()
    assert loaded(coordinator).owned.all_groups() == []


def test_a_group_changes_its_protocol_there_and_back(coordinator: Coordinator) -> None:
    coordinator.stable()
    coordinator.commit({"t-0": 1}, Committer("g", coordinator.owned.find_as("g", ClassicGroup).leader_id, None, 1))  # type: ignore[union-attr, arg-type]
    consumer = Client(coordinator, "m", "t")
    with pytest.raises(Exception, match="there is no consumer group"):
        consumer.join()
    coordinator.advance(11_000)
    assert coordinator.state() == "Empty"
    consumer.join()
    assert coordinator.committed() == {"t-0": 1}
    assert {key[:2] for key in live_keys(coordinator.log)} == {bytes([0, n]) for n in (1, 3, 4, 5, 6, 7, 8)}
    assert stored_state(group_of(loaded(coordinator))) == stored_state(group_of(coordinator))
    consumer.leave()
    coordinator.stable()
    assert coordinator.committed() == {"t-0": 1}
    assert {key[:2] for key in live_keys(coordinator.log)} == {b"\x00\x01", b"\x00\x02"}
    assert loaded(coordinator).state() == "Stable"


def test_a_classic_record_that_stands_yields_to_later_ones(coordinator: Coordinator) -> None:
    coordinator.stable()
    coordinator.advance(11_000)
    coordinator.topics.set("u", 1)
    member = Client(coordinator, "m", "t")
    member.join()
    # A log in which the classic group's tombstone is missing.
    log = MemoryTopic(PARTITIONS)
    for key, value in coordinator.log.entries():
        if not (key[:2] == b"\x00\x02" and value is None):
            append(log, coordinator, key, value)
    again = consumer_coordinator(log)
    again.topics = coordinator.topics
    assert group_of(again).members.keys() == {"m"}
    member.coordinator = again
    member.beat(topics=frozenset({"t", "u"}))
    assert b"\x00\x02" not in {key[:2] for key in live_keys(log)}


def append(log: MemoryTopic, coordinator: Coordinator, key: bytes, value: bytes | None) -> None:
    builder = BatchBuilder()
    builder.append(0, key, value)
    log.append(coordinator.owned.partition_of("g"), builder.build(), -1, 1_000, lambda *_: None)


def test_offsets_of_a_transaction(coordinator: Coordinator) -> None:
    producer = TransactionalProducer(7, 0, "x")
    member = Client(coordinator, "m", "t")
    member.join()
    (refused,) = coordinator.commit({"t-0": 1}, Committer("g", "m", None, 5), producer).value.values()
    assert refused is E.ILLEGAL_GENERATION
    (refused,) = coordinator.commit({"t-0": 1}, Committer("g", "stranger", None, 1), producer).value.values()
    assert refused is E.UNKNOWN_MEMBER_ID
    for committer in (Committer("g"), Committer("g", "m", None, 1)):
        (error,) = coordinator.commit({"t-0": 1}, committer, producer).value.values()
        assert error is E.NONE
    assert coordinator.committed(require_stable=True) == {}
    partition = coordinator.owned.partition_of("g")
    coordinator.core.on_transaction_completed(7, [partition], True)
    coordinator.scheduler.tick()
    assert coordinator.committed(require_stable=True) == {"t-0": 1}


# --- failures ---


def test_a_request_that_is_refused_leaves_the_timers(coordinator: Coordinator) -> None:
    static = Client(coordinator, "a", "t", instance_id="i")
    static.join()
    static.leave(-2)
    bad = Client(coordinator, "b", "t", instance_id="i", regex="(")
    bad.epoch = 0
    with pytest.raises(ApiError):
        bad.join()
    core = coordinator.core.consumer

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    topics, core.topics = core.topics, fail  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        Client(coordinator, "b", "t", instance_id="i").join()
    core.topics = topics
    assert group_of(coordinator).members.keys() == group_of(coordinator).sessions.keys() == {"a"}
    coordinator.advance(11_000)
    assert group_of(coordinator).members == {}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_log_refuses_has_not_happened(coordinator: Coordinator, error: E, told: E) -> None:
    first = Client(coordinator, "a", "t", instance_id="i")
    first.join()
    first.leave(-2)
    before = stored_state(group_of(coordinator))
    coordinator.log.error = error
    for attempt in (
        Client(coordinator, "b", "t").join,
        Client(coordinator, "c", "t", instance_id="i").join,
        lambda: first.leave(-1),
    ):
        assert attempt().error is told
        assert stored_state(group_of(coordinator)) == before
    coordinator.log.error = E.NONE
    # The member is still watched.
    coordinator.advance(11_000)
    assert group_of(coordinator).state is ConsumerGroupState.EMPTY


def test_answers_wait_until_the_records_are_safe(coordinator: Coordinator) -> None:
    member = Client(coordinator, "m", "t")
    coordinator.log.hold()
    fields = {"rebalance_timeout_ms": 5_000, "topics": frozenset({"t"}), "owned": frozenset()}
    joined = member.send(0, **fields)
    again = member.send(1)
    assert not joined.done
    assert not again.done, "it would show what is not safe yet"
    coordinator.log.acknowledge()
    assert joined.value.error is again.value.error is E.NONE
    assert again.value.epoch == 1


def test_what_was_not_acknowledged_is_told_once_a_later_batch_is(coordinator: Coordinator) -> None:
    """The log has it, but the next coordinator's may not: until then nobody is told that it is so."""
    member = Client(coordinator, "m", "t")
    coordinator.log.hold()
    fields = {"rebalance_timeout_ms": 5_000, "topics": frozenset({"t"}), "owned": frozenset()}
    joined = member.send(0, **fields)
    coordinator.log.time_out()
    assert joined.value.error is E.COORDINATOR_NOT_AVAILABLE
    coordinator.log.hold()
    again = member.send(0, **fields)
    assert not again.done, "it would give what another coordinator may give to somebody else"
    coordinator.log.acknowledge()
    assert (again.value.error, again.value.epoch, len(again.value.assignment or ())) == (E.NONE, 1, 4)
    written = len(coordinator.log.entries())
    assert member.send(1).value.error is E.NONE
    assert len(coordinator.log.entries()) == written
    assert stored_state(group_of(loaded(coordinator))) == stored_state(group_of(coordinator))


def test_what_was_loaded_and_is_not_committed_is_told_once_a_later_batch_is(coordinator: Coordinator) -> None:
    Client(coordinator, "m", "t").join()
    coordinator.log.committed = False
    successor = loaded(coordinator)
    coordinator.log.hold()
    beat = Client(successor, "m", "t").send(1)
    assert not beat.done, "the next coordinator may know nothing of the member"
    coordinator.log.acknowledge()
    assert (beat.value.error, beat.value.epoch) == (E.NONE, 1)


def test_an_assignor_that_fails_changes_nothing() -> None:
    def broken(members: Members, counts: PartitionCounts) -> dict[str, Partitions]:
        raise ZeroDivisionError

    coordinator = consumer_coordinator(config=replace(CONFIG, assignors={"broken": broken}))
    coordinator.topics.set("t", 1)
    with pytest.raises(ZeroDivisionError):
        Client(coordinator, "m", "t").join()
    assert group_of(coordinator).members == {}
    assert coordinator.log.entries() == []


def test_a_full_group() -> None:
    coordinator = consumer_coordinator(config=replace(CONFIG, max_size=1))
    coordinator.topics.set("t", 1)
    first = Client(coordinator, "a", "t")
    first.join()
    second = Client(coordinator, "b", "t")
    assert second.error(rebalance_timeout_ms=1, topics=frozenset(), owned=frozenset()) is E.GROUP_MAX_SIZE_REACHED
    assert first.join().error is E.NONE


# --- time and topics ---


def test_sessions_end(coordinator: Coordinator) -> None:
    silent, alive = Client(coordinator, "a", "t"), Client(coordinator, "b", "t")
    silent.join()
    alive.join()
    for _ in range(12):
        coordinator.advance(1_000)
        alive.beat()
    assert alive.owned == coordinator.topics.partitions("t")
    assert silent.error() is E.UNKNOWN_MEMBER_ID


def test_who_holds_on_to_partitions_is_fenced(coordinator: Coordinator) -> None:
    greedy, other = Client(coordinator, "a", "t"), Client(coordinator, "b", "t")
    greedy.join()
    everything = greedy.owned
    other.join()
    for _ in range(6):
        other.beat()
        if "a" in group_of(coordinator).members:
            greedy.send(greedy.epoch, owned=everything)
        coordinator.advance(1_000)
    assert set(group_of(coordinator).members) == {"b"}


def test_topics_that_change(coordinator: Coordinator) -> None:
    member = Client(coordinator, "m", "t", "u")
    member.join()
    coordinator.topics.set("u", 2)
    coordinator.topics.set("t", 6)
    member.beat()
    assert member.owned == coordinator.topics.partitions("t") | coordinator.topics.partitions("u")
    assert member.epoch == 2, "one epoch for all that changed"
    coordinator.topics.set("other", 3)
    member.beat()
    assert member.epoch == 2
    coordinator.topics.set("u", 0)
    member.beat()
    assert member.owned == coordinator.topics.partitions("t")


def test_regexes_follow_the_topics(coordinator: Coordinator) -> None:
    member = Client(coordinator, "m", regex="t|logs-.*")
    member.join()
    assert member.owned == coordinator.topics.partitions("t")
    coordinator.topics.set("logs-1", 2)
    coordinator.topics.set("more-logs-1", 2)
    member.beat()
    assert member.owned == coordinator.topics.partitions("t") | coordinator.topics.partitions("logs-1")
    group = group_of(coordinator)
    assert group.regexes.keys() == {"t|logs-.*"}
    member.leave()
    assert group.regexes == {}


def test_a_regex_finds_no_topic_that_the_member_may_not_describe(coordinator: Coordinator) -> None:
    """Else who may read one group learns by regular expressions what topics there are."""
    coordinator.topics.set("secret", 3)
    hidden = Client(coordinator, "m", regex="t|secret.*", may_describe=lambda topic: "secret" not in topic)
    hidden.join()
    assert hidden.owned == coordinator.topics.partitions("t")
    other = Client(coordinator, "o", "t")
    other.join()
    coordinator.topics.set("secret-2", 3)
    other.leave()
    group = group_of(coordinator)
    assert group.regexes["t|secret.*"].topics == {"t"}, "a leave matches for nobody"
    hidden.beat(may_describe=lambda topic: topic != "secret")
    hidden.beat()
    assert hidden.owned == coordinator.topics.partitions("t") | coordinator.topics.partitions("secret-2")


def test_offsets_of_topics_that_nobody_reads_expire(coordinator: Coordinator) -> None:
    member = Client(coordinator, "m", "t")
    member.join()
    coordinator.commit({"t-0": 1, "old-0": 2}, Committer("g", "m", None, 1, knows_epochs=True))
    week = 7 * 24 * 3_600_000
    coordinator.clock.advance(week)
    member.beat()
    coordinator.core.removal.expire()
    assert coordinator.committed() == {"t-0": 1}
    member.leave()
    coordinator.core.removal.expire()
    assert coordinator.owned.all_groups() == []
    assert live_keys(coordinator.log) == set()


def test_unloading_ends_the_timers(coordinator: Coordinator) -> None:
    Client(coordinator, "m", "t").join()
    coordinator.resign()
    entries = len(coordinator.log.entries())
    coordinator.advance(20_000, 1_000)
    assert len(coordinator.log.entries()) == entries
    assert coordinator.heartbeats.watched == 0
