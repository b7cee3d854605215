"""Creating, growing and deleting topics and changing configs by znode; replica placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.replica_placement import MOST_PARTITIONS, alternate_racks, assign_replicas
from controller.topic_names import check_collision, check_topic_name
from controller.zk import paths
from controller.zk.admin import AdminZkClient
from controller.zk.change_listener import CHANGE_EXPIRATION_MS, ChangeListener
from controller.zk.client import ZkClient
from controller.zk.ops import Delete
from controller.zk.payloads import ReplicaAssignment, TopicZnode
from controller.zk.session import SessionExpiredError
from network.protocol.errors import ApiError, ErrorCode
from timer.chance import SeededChance, SystemChance
from timer.clock import SystemClock

CHANCE = SystemChance()
BROKERS: dict[int, str | None] = {1: None, 2: None, 3: None}


@pytest.fixture
def admin(zk: ZkClient) -> AdminZkClient:
    zk.create_startup_paths()
    zk.register_controller(1, 1)
    return AdminZkClient(zk, chance=CHANCE)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        call()
    return raised.value.code


def test_create_topic(admin: AdminZkClient, zk: ZkClient) -> None:
    topic_id = admin.create_topic("t", {0: [1, 2], 1: [2, 1]}, {"retention.ms": "5"})
    assert zk.topic("t") == TopicZnode(topic_id, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))})
    assert zk.topic_config("t") == {"retention.ms": "5"}
    assert zk.config_change_names() == []
    assert code_of(lambda: admin.create_topic("t", {0: [1]})) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert admin.create_topic("empty-config", {0: [1]}) is not None
    assert zk.read("/config/topics/empty-config") is not None
    assert AdminZkClient(zk, chance=CHANCE, use_topic_ids=False).create_topic("old", {0: [1]}) is None


@pytest.mark.parametrize(
    "assignment",
    [{}, {0: []}, {0: [1], 1: [1, 2]}, {0: [1, 1]}, {1: [1]}, {0: [1], 2: [1]}, {0: [-1]}],
)
def test_assignments_that_are_refused(admin: AdminZkClient, zk: ZkClient, assignment: dict[int, list[int]]) -> None:
    assert code_of(lambda: admin.create_topic("t", assignment)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert not zk.topic_exists("t")
    assert zk.config_entities("topics") == []


def test_names() -> None:
    for name in ("a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"):
        check_topic_name(name)
    for name in ("", ".", "..", "x" * 250, "a/b", "a b", "ü", "a\n"):
        assert code_of(lambda name=name: check_topic_name(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION  # type: ignore[misc]
    check_collision("a-b", ["a_b", "a.b"])
    check_collision("a.c", ["a_b", "a.b"])
    assert code_of(lambda: check_collision("a.b_c", ["x", "a_b.c"])) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topic_marked_for_deletion_cannot_be_created(admin: AdminZkClient, zk: ZkClient) -> None:
    admin.create_topic("t", {0: [1]})
    admin.delete_topic("t")
    admin.delete_topic("t")
    assert zk.topics_to_delete() == {"t"}
    assert code_of(lambda: admin.create_topic("t", {0: [1]})) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code_of(lambda: admin.delete_topic("unknown")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_refused_config_writes_nothing(zk: ZkClient) -> None:
    zk.create_startup_paths()
    zk.register_controller(1, 1)

    def refuse(_config: object) -> None:
        raise ApiError(ErrorCode.INVALID_CONFIG, "no")

    admin = AdminZkClient(zk, chance=CHANCE, validate_topic_config=refuse)
    assert code_of(lambda: admin.create_topic("t", {0: [1]}, {"bad": "1"})) is ErrorCode.INVALID_CONFIG
    assert zk.config_entities("topics") == []


def test_add_partitions(admin: AdminZkClient, zk: ZkClient) -> None:
    topic_id = admin.create_topic("t", {0: [2, 3], 1: [3, 1]})
    planned = admin.add_partitions("t", 4, BROKERS, validate_only=True)
    before = zk.topic("t")
    assert before is not None
    assert len(before.assignment) == 2
    assert admin.add_partitions("t", 4, BROKERS) == planned
    grown = zk.topic("t")
    assert grown is not None
    assert grown.topic_id == topic_id
    assert {number: entry.replicas for number, entry in grown.assignment.items()} == {
        0: (2, 3),
        1: (3, 1),
        2: tuple(planned[2]),
        3: tuple(planned[3]),
    }
    # As Kafka places them: start and shift are the index of the first broker of partition 0.
    assert planned == {2: [1, 3], 3: [2, 3]}
    assert admin.add_partitions("t", 5, BROKERS, [[3, 1]]) == {4: [3, 1]}
    for bad, expected in (
        ((5, None), ErrorCode.INVALID_PARTITIONS),
        ((2, None), ErrorCode.INVALID_PARTITIONS),
        ((6, [[1, 2], [2, 3]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((6, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((6, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((6, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ):
        assert code_of(lambda bad=bad: admin.add_partitions("t", bad[0], BROKERS, bad[1])) is expected  # type: ignore[misc]
    assert code_of(lambda: admin.add_partitions("no", 5, BROKERS)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    zk.set_topic("t", TopicZnode(topic_id, {0: ReplicaAssignment((1, 2), adding=(1,))}))
    assert code_of(lambda: admin.add_partitions("t", 9, BROKERS)) is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_change_configs_notifies(admin: AdminZkClient, zk: ZkClient) -> None:
    admin.create_topic("t", {0: [1]})
    admin.change_configs("topics/t", {"a": "1"})
    admin.change_configs("topics/t", {})
    admin.change_configs("brokers/<default>", {"b": "2"})
    assert [zk.config_change(name) for name in zk.config_change_names()] == [
        "topics/t",
        "topics/t",
        "brokers/<default>",
    ]
    assert zk.read("/config/topics/t") is not None
    assert code_of(lambda: admin.change_configs("topics/absent", {})) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_empty_quota_znodes_are_removed(admin: AdminZkClient, zk: ZkClient) -> None:
    quota = {"producer_byte_rate": "1"}
    admin.change_configs("users/u", quota)
    admin.change_configs("users/u/clients/c", quota)
    admin.change_configs("users/u", {})
    assert zk.exists("/config/users/u/clients/c")
    assert zk.config("users/u") == {}
    admin.change_configs("users/u/clients/c", {})
    assert not zk.exists("/config/users/u")

    admin.change_configs("users/v", quota)
    admin.change_configs("users/v/clients/a", quota)
    admin.change_configs("users/v/clients/b", quota)
    admin.change_configs("users/v/clients/a", {})
    assert zk.children("/config/users/v/clients") == ["b"]
    admin.change_configs("users/v/clients/b", {})
    assert zk.children("/config/users/v") == []
    assert zk.config("users/v") == quota
    admin.change_configs("clients/c", quota)
    admin.change_configs("clients/c", {})
    assert not zk.exists("/config/clients/c")


class _Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    def wall_ms(self) -> int:
        return self.now


def test_change_listener_applies_once_in_order_and_purges(zk: ZkClient, make_client: Callable[..., ZkClient]) -> None:
    other = make_client()
    zk.create_startup_paths()
    other.create_config_change("topics/one")
    seen: list[bytes] = []

    def process(data: bytes) -> None:
        seen.append(data)
        if b"two" in data:
            raise RuntimeError("an error counts as processed")

    found = zk.read("/config/changes/config_change_0000000000")
    assert found is not None
    clock = _Clock(found[1].ctime + CHANGE_EXPIRATION_MS)
    listener = ChangeListener(zk, paths.CONFIG_CHANGES, paths.CONFIG_CHANGE_PREFIX, process, clock)  # type: ignore[arg-type]
    listener.start(own_thread=False)
    assert [b"one" in data for data in seen] == [True]
    assert listener.step() is None
    other.create_config_change("topics/two")
    other.create_config_change("topics/three")
    for _ in range(500):
        listener.step()
        if len(seen) == 3:
            break
        zk.exists("/")
    assert [b"two" in seen[1], b"three" in seen[2]] == [True, True]
    clock.now += 60_000
    other.create_config_change("topics/four")
    for _ in range(500):
        listener.step()
        if len(seen) == 4:
            break
        zk.exists("/")
    assert len(seen) == 4
    listener.close()
    assert zk.config_change_names() == []


def test_a_change_whose_session_ends_while_it_is_applied_is_applied_in_the_next(
    zk: ZkClient, make_client: Callable[..., ZkClient]
) -> None:
    """Else a password that was taken away, say, would be good on this broker until it is started again."""
    zk.create_startup_paths()
    failures = [SessionExpiredError("planted")]
    applied: list[bytes] = []

    def process(data: bytes) -> None:
        if failures:
            raise failures.pop()
        applied.append(data)

    listener = ChangeListener(zk, paths.CONFIG_CHANGES, paths.CONFIG_CHANGE_PREFIX, process, SystemClock())
    listener.start(own_thread=False)
    make_client().create_config_change("users/alice")
    with pytest.raises(SessionExpiredError):
        listener.run()
    listener.run()
    assert [b"alice" in data for data in applied] == [True]
    listener.run()
    assert len(applied) == 1
    listener.close()


def test_change_listener_reads_each_notification_once(zk: ZkClient, make_client: Callable[..., ZkClient]) -> None:
    """So that the thousandth change costs no more than the first."""
    other = make_client()
    seen: list[bytes] = []
    read: list[str] = []
    zk.create_startup_paths()
    read_all = zk.read_all

    def counted(names: Sequence[str]) -> Any:
        read.extend(names)
        return read_all(names)

    zk.read_all = counted  # type: ignore[method-assign, assignment]
    listener = ChangeListener(zk, paths.CONFIG_CHANGES, paths.CONFIG_CHANGE_PREFIX, seen.append, SystemClock())
    for number in range(20):
        other.create_config_change(f"topics/t{number}")
        listener.run()
    assert [data.decode().partition("/")[2].rstrip('"}') for data in seen] == [f"t{number}" for number in range(20)]
    assert len(read) == len(set(read)) == 20
    other.session.submit([Delete(f"{paths.CONFIG_CHANGES}/{name}") for name in other.config_change_names()[:10]])
    other.create_config_change("topics/last")
    listener.run()
    assert (len(seen), len(read)) == (21, 21)
    listener.close()


# -- placement ---------------------------------------------------------------------------------------------------------


def test_placement_follows_kafkas_rule() -> None:
    brokers: dict[int, str | None] = dict.fromkeys(range(5))
    placed = assign_replicas(brokers, 10, 3, chance=CHANCE, fixed_start_index=0)
    assert placed == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }
    racks: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
    assert alternate_racks({id: str(rack) for id, rack in racks.items()}) == [0, 1, 2, 3, 4, 5]
    assert assign_replicas(racks, 7, 3, chance=CHANCE, fixed_start_index=0) == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 5],
        4: [4, 5, 0],
        5: [5, 0, 1],
        6: [0, 4, 5],
    }


@pytest.mark.parametrize(("first", "count"), [(0, 2**31 - 1), (0, MOST_PARTITIONS + 1), (1, MOST_PARTITIONS)])
def test_more_partitions_than_a_znode_holds_are_not_even_planned(first: int, count: int) -> None:
    planned = partial(assign_replicas, {1: None}, count, 1, chance=CHANCE, first_partition=first)
    assert code_of(planned) is ErrorCode.INVALID_PARTITIONS


@given(
    racks=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    with_racks=st.booleans(),
    partitions=st.integers(1, 30),
    factor=st.integers(1, 8),
    seed=st.integers(0, 5),
)
def test_placement_spreads(racks: list[int], with_racks: bool, partitions: int, factor: int, seed: int) -> None:
    brokers: dict[int, str | None] = {id: f"r{rack}" if with_racks else None for id, rack in enumerate(racks)}
    if factor > len(brokers):
        assert (
            code_of(lambda: assign_replicas(brokers, partitions, factor, chance=CHANCE))
            is ErrorCode.INVALID_REPLICATION_FACTOR
        )
        return
    placed = assign_replicas(brokers, partitions, factor, chance=SeededChance(seed))
    assert set(placed) == set(range(partitions))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders[id] for id in brokers) <= 1
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        if with_racks:
            used = {brokers[id] for id in replicas}
            assert len(used) == min(factor, len(set(brokers.values())))


def test_placement_errors() -> None:
    assert code_of(lambda: assign_replicas({1: None}, 0, 1, chance=CHANCE)) is ErrorCode.INVALID_PARTITIONS
    assert code_of(lambda: assign_replicas({1: None}, 1, 0, chance=CHANCE)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert code_of(lambda: assign_replicas({1: "a", 2: None}, 1, 1, chance=CHANCE)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(assign_replicas({1: "a", 2: None}, 1, 2, chance=CHANCE, use_racks=False)[0]) == 2
