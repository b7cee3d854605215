"""Offsets that go: with their group, with their topic, by retention."""

from typing import Any

import pytest

from broker.groups.classic.requests import LeavingMember
from broker.groups.offsets.committer import Committer
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, partition

HOUR = 3_600_000


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


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
    RETENTION: dict[str, Any] = {"offsets_retention_ms": 24 * HOUR, "retention_check_interval_ms": HOUR}

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
