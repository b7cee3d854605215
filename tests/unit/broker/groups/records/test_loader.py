"""Loading: what Kafka wrote, and what the next coordinator finds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.records import loader
from tests.support.golden_offsets import FOLDERS, batches_of, golden
from tests.support.groups import Coordinator, partition
from timer.clock import ManualClock


def expected_state(dump: str) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """Generations of groups and committed offsets at the end of a dump, by a reading of its text."""
    groups: dict[str, int] = {}
    offsets: dict[tuple[str, str], int] = {}
    open_: dict[str, list[tuple[tuple[str, str], int]]] = {}
    producer, transactional, control = "", False, False
    for line in dump.splitlines():
        head = re.match(r"baseOffset: .* producerId: (\S+) .*isTransactional: (\w+) isControl: (\w+)", line)
        if head:
            producer, transactional, control = head[1], head[2] == "true", head[3] == "true"
        elif control and (marker := re.search(r"endTxnMarker: (\w+)", line)):
            if marker[1] == "COMMIT":
                offsets.update(open_.get(producer, []))
            open_.pop(producer, None)
        elif found := re.search(r"key: (\{.*?\}) payload: (.*)$", line):
            key = json.loads(found[1] + "}" if found[1].count("{") > found[1].count("}") else found[1])
            data = key["data"]
            payload = None if found[2] == "<DELETE>" else json.loads(found[2])["data"]
            if key["type"] == "2":
                groups.pop(data["group"], None)
                if payload is not None:
                    groups[data["group"]] = payload["generation"]
                continue
            name = (data["group"], f"{data['topic']}-{data['partition']}")
            if payload is None:
                offsets.pop(name, None)
            elif transactional:
                open_.setdefault(producer, []).append((name, payload["offset"]))
            else:
                offsets[name] = payload["offset"]
    return groups, offsets


@pytest.mark.parametrize("folder", FOLDERS)
def test_kafkas_topic_loads_with_the_state_that_its_dump_shows(folder: str, tmp_path: Path) -> None:
    compared = 0
    for log, dump in golden(folder):
        loaded = loader.load(batches_of(log, tmp_path), ManualClock())
        groups, offsets = expected_state(dump.read_text())
        assert {name: group.generation_id for name, group in loaded.groups.items() if group.generation_id} == groups  # type: ignore[attr-defined]
        found = {
            (name, str(where)): commit.value.offset
            for name, group in loaded.groups.items()
            for where, commit in group.offsets.committed.items()
        }
        assert found == offsets
        compared += len(offsets) + len(groups)
    assert compared >= 5


def test_members_of_kafkas_groups(tmp_path: Path) -> None:
    groups: dict[str, Any] = {}
    for log, _ in golden("1_clean"):
        groups.update(loader.load(batches_of(log, tmp_path), ManualClock()).groups)
    assert {name for name in groups if name.startswith("group-")} >= {"group-simple", "group-static"}
    for group in groups.values():
        for member in group:
            assert member.client_host == "/127.0.0.1"
            assert group.subscribed_topics


def test_the_next_coordinator_finds_everything() -> None:
    first = Coordinator()
    leader, follower = first.stable(2, group_instance_id=None)
    first.stable(group_id="static", group_instance_id="i")
    first.commit({"t-0": 1, "t-1": 2})
    member = Committer("g", leader.member_id, None, leader.generation_id)
    first.commit({"t-0": 3, "t-1": 4}, member, metadata="m", leader_epoch=2)
    second = Coordinator(first.log, first.clock)
    assert second.state() == "Stable"
    assert second.committed() == {"t-0": 3, "t-1": 4}
    assert second.heartbeat(follower).name == "NONE"
    assert second.sync(follower).value.assignment == b"a1"
    before, after = first.owned.find_as("g", ClassicGroup), second.owned.find_as("g", ClassicGroup)
    assert before is not None
    assert after is not None
    for name in ("generation_id", "protocol_type", "protocol_name", "leader_id", "subscribed_topics"):
        assert getattr(before, name) == getattr(after, name)
    assert after.offsets.committed[partition("t-0")].value.leader_epoch == 2
    assert second.owned.find_as("static", ClassicGroup).static_members.keys() == {"i"}  # type: ignore[union-attr]
    # Sessions run from the load.
    second.advance(10_100)
    assert second.state() == "Empty"


def test_open_transactions_survive_a_move() -> None:
    first = Coordinator()
    first.commit({"t-0": 1})
    for producer_id, commit in [(1, True), (2, False), (3, None)]:
        first.commit({f"t-{producer_id}": 5}, producer=TransactionalProducer(producer_id, 0, "x"))
        if commit is not None:
            first.log.marker(first.owned.partition_of("g"), producer_id, commit=commit)
    second = Coordinator(first.log, first.clock)
    assert second.committed() == {"t-0": 1, "t-1": 5}
    second.core.on_transaction_completed(3, [0, 1, 2], True)
    second.scheduler.tick()
    assert second.committed() == {"t-0": 1, "t-1": 5, "t-3": 5}


def test_a_plain_commit_after_an_open_one_wins_on_load_too() -> None:
    first = Coordinator()
    first.commit({"t-0": 5}, producer=TransactionalProducer(1, 0, "x"))
    first.commit({"t-0": 9})
    first.log.marker(first.owned.partition_of("g"), 1, commit=True)
    assert Coordinator(first.log, first.clock).committed() == {"t-0": 9}
