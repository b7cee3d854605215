"""Plans: balanced, rack-aware, complete, and with few bytes moved."""

from __future__ import annotations

import random

import pytest

from network.client.cluster_balance import Broker, Placement, PlanError, drain_plan, make_plan


def loads(placements: list[Placement], brokers: list[Broker]) -> dict[int, int]:
    found = {broker.id: 0 for broker in brokers}
    for placement in placements:
        for broker in placement.replicas:
            found[broker] = found.get(broker, 0) + placement.size
    return found


def applied(placements: list[Placement], changed: list[Placement]) -> list[Placement]:
    new = {(p.topic, p.partition): p for p in changed}
    return [new.get((p.topic, p.partition), p) for p in placements]


def test_a_balanced_cluster_stays_as_it_is() -> None:
    placements = [Placement("t", n, [n % 3, (n + 1) % 3], 100) for n in range(6)]
    plan = make_plan([Broker(n) for n in range(3)], placements)
    assert plan.changed == []
    assert plan.bytes_moved == 0


def test_a_new_broker_gets_its_share_and_no_more_travels() -> None:
    placements = [Placement("t", n, [n % 3], 100) for n in range(12)]
    brokers = [Broker(n) for n in range(4)]
    plan = make_plan(brokers, placements)
    assert loads(applied(placements, plan.changed), brokers) == dict.fromkeys(range(4), 300)
    assert plan.bytes_moved == 300
    assert plan.to_json()["version"] == 1


def test_a_leaving_broker_is_emptied() -> None:
    placements = [Placement("t", n, [n % 4, (n + 1) % 4], 100) for n in range(12)]
    brokers = [Broker(n) for n in range(3)]
    plan = make_plan(brokers, placements)
    after = applied(placements, plan.changed)
    assert all(3 not in p.replicas for p in after)
    assert plan.bytes_moved == 600
    assert max(loads(after, brokers).values()) <= 900


def test_racks_come_before_balance() -> None:
    brokers = [Broker(0, "a"), Broker(1, "a"), Broker(2, "b")]
    placements = [Placement("t", n, [0, 1], 100) for n in range(4)]
    plan = make_plan(brokers, placements)
    assert all(2 in p.replicas for p in applied(placements, plan.changed))
    assert plan.bytes_moved == 400


def test_traffic_counts_as_bytes_do() -> None:
    placements = [Placement("t", 0, [0], 100, 50.0), Placement("t", 1, [0], 100, 50.0), Placement("t", 2, [1], 200)]
    plan = make_plan([Broker(0), Broker(1), Broker(2)], placements)
    moved = {p.partition: p.replicas for p in plan.changed}
    assert set(moved) in ({0}, {1})
    assert list(moved.values()) == [[2]]


def test_leaders_are_spread_without_moving_bytes() -> None:
    placements = [Placement("t", n, [0, 1, 2], 10) for n in range(6)]
    plan = make_plan([Broker(n) for n in range(3)], placements)
    assert plan.bytes_moved == 0
    assert plan.leaders_after == {0: 2, 1: 2, 2: 2}


def test_too_few_brokers() -> None:
    with pytest.raises(PlanError, match="t-0 has 2 replicas"):
        make_plan([Broker(0)], [Placement("t", 0, [0, 1], 1)])


def test_random_clusters() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        racks: list[str | None] = draw.choice([[None], ["a", "b"], ["a", "b", "c"]])
        brokers = [Broker(n, racks[n % len(racks)]) for n in range(draw.randrange(3, 8))]
        placements = [
            Placement("t", n, draw.sample(range(len(brokers)), draw.randrange(1, 4)), draw.randrange(1, 1000))
            for n in range(draw.randrange(1, 40))
        ]
        plan = make_plan(brokers, placements)
        after = applied(placements, plan.changed)
        assert all(len(set(p.replicas)) == len(p.replicas) for p in after)
        assert [len(p.replicas) for p in after] == [len(p.replicas) for p in placements]
        assert sum(plan.leaders_after.values()) == len(placements)
        if racks == [None]:
            assert max(plan.after.values()) <= max(plan.before.values()) + 1e-9
        else:
            rack = {broker.id: broker.rack for broker in brokers}
            for p in after:
                assert len({rack[b] for b in p.replicas}) == min(len(p.replicas), len(racks))


def test_empty_partitions_are_spread_too() -> None:
    placements = [Placement("t", n, [0, 1]) for n in range(12)]
    brokers = [Broker(n) for n in range(4)]
    plan = make_plan(brokers, placements)
    after = applied(placements, plan.changed)
    assert [sum(broker.id in p.replicas for p in after) for broker in brokers] == [6, 6, 6, 6]
    assert plan.bytes_moved == 0


def test_small_gains_are_not_worth_a_move() -> None:
    placements = [Placement("t", 0, [0], 10**9), Placement("t", 1, [0], 1), Placement("t", 2, [1], 5 * 10**8)]
    assert make_plan([Broker(0), Broker(1)], placements).changed == []


def test_draining_moves_nothing_but_what_leaves() -> None:
    placements = [
        Placement("t", 0, [3, 0], 100),
        Placement("t", 1, [0, 1], 100),  # unbalanced, but none of our business
        Placement("t", 2, [0, 3], 100),
        Placement("t", 3, [9, 3], 100),  # broker 9 is down
    ]
    plan = drain_plan([Broker(n) for n in range(4)], placements, {3})
    changed = {p.partition: p.replicas for p in plan.changed}
    assert set(changed) == {0, 2, 3}
    assert sorted(changed[0]) == [0, 2]
    assert changed[0][0] == 2  # broker 0 leads two others already
    assert changed[2][0] == 0
    assert changed[3][0] == 9
    assert not any(3 in replicas for replicas in changed.values())
    assert plan.after[3] == 0
    assert plan.bytes_moved == 300


def test_draining_keeps_racks_apart() -> None:
    brokers = [Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b")]
    placements = [Placement("t", n, [n % 2, 2], 100) for n in range(8)]
    plan = drain_plan(brokers, placements, {2})
    assert [p.replicas for p in plan.changed] == [[n % 2, 3] for n in range(8)]


def test_leaders_of_a_drained_broker_are_shared_out() -> None:
    placements = [Placement("t", n, [n // 3, *({0, 1, 2, 3} - {n // 3})][:3], 100) for n in range(12)]
    plan = drain_plan([Broker(n) for n in range(4)], placements, {3})
    assert plan.leaders_before == {0: 3, 1: 3, 2: 3, 3: 3}
    assert plan.leaders_after == {0: 4, 1: 4, 2: 4, 3: 0}


def test_draining_the_last_broker_that_could_hold_a_replica() -> None:
    with pytest.raises(PlanError, match="2 brokers are too few"):
        drain_plan([Broker(n) for n in range(3)], [Placement("t", 0, [0, 1, 2])], {2})
    with pytest.raises(PlanError, match="needs a broker"):
        drain_plan([Broker(0)], [Placement("t", 0, [0])], {0})
