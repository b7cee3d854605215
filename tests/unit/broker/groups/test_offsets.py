"""Committing, fetching, deleting and expiring offsets; transactions; who may commit when."""

import pytest

from broker.groups.classic.requests import LeavingMember
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.offsets.group_offsets import CommittedOffset, GroupOffsets, OffsetAndMetadata
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, partition, subscription

HOUR = 3_600_000
PRODUCER = TransactionalProducer(7, 0, "tx")


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_simple_consumer_commits_without_a_group(coordinator: Coordinator) -> None:
    results = coordinator.commit({"t-0": 5, "t-1": 6}).value
    assert set(results.values()) == {E.NONE}
    assert coordinator.committed() == {"t-0": 5, "t-1": 6}
    assert coordinator.state() == "Empty"
    error, found = coordinator.offsets.fetch("g", [partition("t-0"), partition("x-9")])
    assert error is E.NONE
    assert [fetched.value.offset for fetched in found.values()] == [5, -1]
    assert coordinator.offsets.fetch("unknown", [partition("t-0")])[1][partition("t-0")].value.offset == -1


def test_one_batch_a_request_with_the_fields_of_kafka(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 5, "t-1": 6})
    (batch,) = [batch for batches in coordinator.log.batches.values() for batch in batches]
    assert (batch.record_count, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2, -1, -1, 0)
    assert not batch.is_transactional
    assert coordinator.log.acks == [-1]


def test_an_offset_is_visible_only_when_acknowledged(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 1})
    coordinator.log.hold()
    answer = coordinator.commit({"t-0": 2})
    assert not answer.done
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.committed(require_stable=True) == {"t-0": "UNSTABLE_OFFSET_COMMIT"}
    coordinator.log.acknowledge()
    assert answer.value[partition("t-0")] is E.NONE
    assert coordinator.committed(require_stable=True) == {"t-0": 2}


def test_the_later_in_the_log_wins_whatever_the_order_of_acknowledgements() -> None:
    offsets = GroupOffsets("g")
    name, first, second = partition("t-0"), OffsetAndMetadata(1), OffsetAndMetadata(2)
    offsets.prepare({name: first})
    offsets.prepare({name: second})
    offsets.appended(name, CommittedOffset(11, second))
    assert not offsets.is_unstable(name)
    offsets.prepare({name: OffsetAndMetadata(3)})
    offsets.appended(name, CommittedOffset(10, first))
    assert offsets.get(name) == second
    assert offsets.is_unstable(name)


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.RECORD_LIST_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.REQUEST_TIMED_OUT, E.REQUEST_TIMED_OUT),
    ],
)
def test_a_failed_append_changes_nothing(coordinator: Coordinator, append_error: E, told: E) -> None:
    coordinator.commit({"t-0": 1})
    coordinator.log.error = append_error
    assert coordinator.commit({"t-0": 2}).value == {partition("t-0"): told}
    assert coordinator.committed(require_stable=True) == {"t-0": 1}


def test_too_long_metadata_is_refused_alone(coordinator: Coordinator) -> None:
    assert coordinator.commit({"t-0": 1}, metadata="ä" * 4_096).value[partition("t-0")] is E.NONE
    # Two UTF-16 units a character.
    too_long = coordinator.commit({"t-0": 2}, metadata="\U0001f600" * 2_049).value
    assert too_long == {partition("t-0"): E.OFFSET_METADATA_TOO_LARGE}
    assert coordinator.committed() == {"t-0": 1}
    assert len(coordinator.log.entries()) == 1


def test_members_commit_in_their_generation_only(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    committer = Committer("g", member.member_id, None, member.generation_id)
    assert coordinator.commit({"t-0": 1}, committer).value == {partition("t-0"): E.NONE}
    for wrong, error in [
        (committer._replace(generation_id=9), E.ILLEGAL_GENERATION),
        (committer._replace(generation_id=-1), E.ILLEGAL_GENERATION),
        (committer._replace(member_id="x"), E.UNKNOWN_MEMBER_ID),
        (committer._replace(group_instance_id="i"), E.UNKNOWN_MEMBER_ID),
        (Committer("g"), E.UNKNOWN_MEMBER_ID),
        (Committer("new", generation_id=3), E.ILLEGAL_GENERATION),
    ]:
        assert coordinator.commit({"t-0": 2}, wrong).value == {partition("t-0"): error}
    # While preparing, members may still save what they did; between join and sync they may not.
    waiting = coordinator.join()
    assert coordinator.commit({"t-0": 3}, committer).value == {partition("t-0"): E.NONE}
    again = coordinator.join(member.member_id).value
    assert waiting.done
    committer = committer._replace(generation_id=again.generation_id)
    assert coordinator.commit({"t-0": 4}, committer).value == {partition("t-0"): E.REBALANCE_IN_PROGRESS}
    assert coordinator.committed() == {"t-0": 3}


def test_a_commit_keeps_the_session_alive(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    committer = Committer("g", member.member_id, None, member.generation_id)
    for _ in range(5):
        coordinator.advance(9_000, 1_000)
        assert coordinator.commit({"t-0": 1}, committer).value == {partition("t-0"): E.NONE}
    assert coordinator.heartbeat(member) is E.NONE


def test_an_empty_group_takes_anonymous_commits(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    coordinator.advance(11_000)
    assert coordinator.state() == "Empty"
    assert coordinator.commit({"t-0": 9}).value == {partition("t-0"): E.NONE}
    late = Committer("g", member.member_id, None, member.generation_id)
    assert coordinator.commit({"t-0": 1}, late).value == {partition("t-0"): E.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_transaction_wait_for_its_end(coordinator: Coordinator, commit: bool) -> None:
    coordinator.commit({"t-0": 1})
    assert coordinator.commit({"t-0": 2, "t-1": 3}, producer=PRODUCER).value[partition("t-1")] is E.NONE
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.committed(require_stable=True) == {"t-0": "UNSTABLE_OFFSET_COMMIT"}
    batch = coordinator.log.batches[coordinator.owned.partition_of("g")][-1]
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (True, 7, 0, 0)
    coordinator.core.on_transaction_completed(7, [0, 1, 2], commit)
    coordinator.scheduler.tick()
    assert coordinator.committed(require_stable=True) == ({"t-0": 2, "t-1": 3} if commit else {"t-0": 1})
    coordinator.core.on_transaction_completed(7, [0, 1, 2], commit)
    coordinator.scheduler.tick()


def test_a_plain_commit_after_that_of_an_open_transaction_wins(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 2}, producer=PRODUCER)
    coordinator.commit({"t-0": 9})
    coordinator.core.on_transaction_completed(7, [0, 1, 2], True)
    coordinator.scheduler.tick()
    assert coordinator.committed() == {"t-0": 9}


def test_a_failed_transactional_append_leaves_nothing_pending(coordinator: Coordinator) -> None:
    coordinator.log.error = E.INVALID_PRODUCER_EPOCH
    assert coordinator.commit({"t-0": 2}, producer=PRODUCER).value == {partition("t-0"): E.INVALID_PRODUCER_EPOCH}
    coordinator.log.error = E.NONE
    coordinator.commit({"t-0": 1})
    assert coordinator.committed(require_stable=True) == {"t-0": 1}
    coordinator.core.on_transaction_completed(7, [0, 1, 2], True)
    coordinator.scheduler.tick()
    assert coordinator.committed() == {"t-0": 1}


def test_members_are_checked_in_transactions_too(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    zombie = Committer("g", member.member_id, None, member.generation_id - 1)
    refused = coordinator.commit({"t-0": 1}, zombie, PRODUCER).value
    assert refused == {partition("t-0"): E.ILLEGAL_GENERATION}
    assert coordinator.commit({"t-0": 1}, Committer("g"), PRODUCER).value == {partition("t-0"): E.NONE}


def test_deleting_offsets(coordinator: Coordinator) -> None:
    assert coordinator.offsets.delete("g", [partition("t-0")])[0] is E.GROUP_ID_NOT_FOUND
    (member,) = coordinator.stable(protocols=(("range", subscription("t")),))
    committer = Committer("g", member.member_id, None, member.generation_id)
    coordinator.commit({"t-0": 1, "u-0": 2}, committer)
    error, results = coordinator.offsets.delete("g", [partition("t-0"), partition("u-0")])
    assert (error, list(results.values())) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.log.entries()[-1][1] is None
    assert coordinator.log.acks[-1] == 0
    coordinator.advance(11_000)
    assert coordinator.offsets.delete("g", [partition("t-0")])[1] == {partition("t-0"): E.NONE}
    assert coordinator.committed() == {}


def test_deleting_offsets_of_another_kind_of_group(coordinator: Coordinator) -> None:
    coordinator.stable(protocol_type="connect")
    assert coordinator.offsets.delete("g", [partition("t-0")])[0] is E.NON_EMPTY_GROUP


def test_deleting_a_group_writes_tombstones_for_all_of_it(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    coordinator.commit({"t-0": 1, "t-1": 2}, Committer("g", member.member_id, None, member.generation_id))
    assert coordinator.admin.delete_groups(["g", "none", "g", ""]) == {
        "g": E.NON_EMPTY_GROUP,
        "none": E.GROUP_ID_NOT_FOUND,
        "": E.GROUP_ID_NOT_FOUND,
    }
    coordinator.advance(11_000)
    assert coordinator.admin.delete_groups(["g"]) == {"g": E.NONE}
    assert coordinator.state() == "Dead"
    assert [value for _, value in coordinator.log.entries()[-3:]] == [None] * 3
    other = Coordinator(coordinator.log, coordinator.clock)
    assert other.admin.list_groups() == (E.NONE, [])


def test_deleted_topics_take_their_offsets_along(coordinator: Coordinator) -> None:
    coordinator.commit({"t-0": 1, "u-0": 2})
    coordinator.commit({"t-0": 1}, Committer("h"))
    coordinator.core.on_partitions_deleted([partition("t-0"), partition("t-1")])
    coordinator.scheduler.tick()
    assert coordinator.committed() == {"u-0": 2}
    # A simple consumer's group without offsets is gone altogether, without a tombstone of its own.
    assert [group.group_id for group in coordinator.admin.list_groups()[1]] == ["g"]
    assert len([value for _, value in coordinator.log.entries() if value is None]) == 2


class TestExpiry:
    RETENTION = {"offsets_retention_ms": 24 * HOUR, "retention_check_interval_ms": HOUR}

    def test_a_simple_consumers_offsets_age_from_their_commit(self) -> None:
        coordinator = Coordinator(**self.RETENTION)
        coordinator.commit({"t-0": 1})
        coordinator.advance(12 * HOUR, HOUR)
        coordinator.commit({"t-1": 1})
        coordinator.advance(12 * HOUR, HOUR)
        assert coordinator.committed() == {"t-1": 1}
        coordinator.advance(12 * HOUR, HOUR)
        assert coordinator.state() == "Dead"

    def test_an_empty_groups_offsets_age_from_when_it_became_empty(self) -> None:
        coordinator = Coordinator(**self.RETENTION)
        (member,) = coordinator.stable(session_timeout_ms=1_800_000)
        committer = Committer("g", member.member_id, None, member.generation_id)
        coordinator.commit({"t-0": 1}, committer)
        for _ in range(4 * 30):
            coordinator.advance(HOUR // 4, HOUR // 4)
            coordinator.heartbeat(member)
        coordinator.leave(LeavingMember(member.member_id))
        coordinator.advance(23 * HOUR, HOUR)
        assert coordinator.committed() == {"t-0": 1}
        coordinator.advance(2 * HOUR, HOUR)
        assert coordinator.state() == "Dead"
        assert coordinator.log.entries()[-1] == (b"\x00\x02\x00\x01g", None)

    def test_a_running_group_keeps_what_it_reads(self) -> None:
        coordinator = Coordinator(**self.RETENTION)
        (member,) = coordinator.stable(session_timeout_ms=1_800_000)
        committer = Committer("g", member.member_id, None, member.generation_id)
        coordinator.commit({"t-0": 1, "u-0": 1}, committer)
        for _ in range(100):
            coordinator.advance(HOUR // 4, HOUR // 4)
            assert coordinator.heartbeat(member) is E.NONE
        assert coordinator.committed() == {"t-0": 1}

    def test_an_offset_with_its_own_expiry(self) -> None:
        coordinator = Coordinator(**self.RETENTION)
        coordinator.commit({"t-0": 1}, expire_timestamp=coordinator.clock.wall_ms() + 2 * HOUR)
        coordinator.commit({"t-1": 1}, expire_timestamp=coordinator.clock.wall_ms() + 48 * HOUR)
        coordinator.advance(3 * HOUR, HOUR)
        assert coordinator.committed() == {"t-1": 1}
        coordinator.advance(30 * HOUR, HOUR)
        assert coordinator.committed() == {"t-1": 1}

    def test_a_pending_commit_holds_it_back(self) -> None:
        coordinator = Coordinator(**self.RETENTION)
        coordinator.commit({"t-0": 1})
        coordinator.log.hold()
        coordinator.commit({"t-0": 2})
        coordinator.advance(30 * HOUR, HOUR)
        assert coordinator.committed() == {"t-0": 1}
