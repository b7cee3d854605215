"""What the group coordinator costs. `python -m benchmarks.groups [--quick] [--json] [--plot]`

- µs of an offset commit by the number of groups (10 to 10,000), through the coordinator into a real log: must stay flat
- memory of the coordinator with 10,000 groups of one member and ten offsets each (`--quick`: 2,000)
- load time of 1,000,000 offset commits (`--quick`: 100,000), of few keys and of keys that all differ
- a rebalance of 100 members and 1,000 partitions: processor time of the coordinator from the first join to the last
assignment - commits/s and time of such a rebalance by the wall clock, over sockets against a broker process
(`--broker`; starts a ZooKeeper)

`--plot` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.async_connection import AsyncConnection
from benchmarks.charts import replace_section
from broker.coordinator.coordinator_log import Batch
from broker.dev.cluster import DevCluster
from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from broker.groups.classic.requests import JoinRequest, JoinResult, SyncRequest, SyncResult
from broker.groups.config import GroupConfig
from broker.groups.coordinator import GroupCoordinator, Surroundings
from broker.groups.offsets.committer import Committer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from log.appends import append_as_leader
from log.config import LogConfig
from log.management.manager import LogManager, LogManagerSettings
from log.records.old_formats import iter_entries
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from network.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from timer.chance import SystemChance
from timer.clock import ManualClock, SystemClock
from timer.executor import InlineExecutor
from timer.metrics import NULL_METRICS
from timer.purgatory import Purgatory
from timer.scheduler import ManualScheduler
from timer.timer import SystemTimer

DOCS = Path(__file__).resolve().parent.parent / "docs"
PARTITION = TopicPartition("__consumer_offsets", 0)
MEMBERS, PARTITIONS = 100, 1_000


class RealLog:
    """One partition of `__consumer_offsets` in a directory, acknowledged when it is appended."""

    def __init__(self, directory: Path) -> None:
        manager = LogManager(
            [str(directory)],
            default_config=LogConfig(),
            topic_configs=lambda topic: {},
            broker_id=0,
            cluster_id="bench",
            clock=SystemClock(),
            scheduler=ManualScheduler(ManualClock()),
            chance=SystemChance(),
            settings=LogManagerSettings(cleaner_enabled=False),
        )
        manager.startup()
        self.log = manager.get_or_create_log(PARTITION, is_new=True)

    def append(
        self,
        partition: int,
        batch: bytes | bytearray,
        required_acks: int,
        timeout_ms: int,
        on_done: Callable[[ErrorCode, int], None],
        transactional_id: str | None = None,
    ) -> None:
        info = append_as_leader(self.log, bytearray(batch), 0, AppendOrigin.COORDINATOR)
        on_done(ErrorCode.NONE, info.first_offset)

    def read(self, partition: int, buffer_bytes: int) -> Iterable[Batch]:
        position = self.log.log_start_offset
        while position < self.log.log_end_offset:
            found = self.log.read(position, buffer_bytes, min_one_message=True)
            data = found.records.read()
            found.records.release()
            for batch in iter_entries(data):
                yield batch
                position = batch.last_offset + 1

    def is_committed(self, partition: int) -> bool:
        return True

    def is_local(self, partition: int) -> bool:
        return True

    def max_batch_bytes(self, partition: int) -> int:
        return 1_048_588


class Bench:
    """A coordinator of one partition whose time stands still."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.log = RealLog(directory)
        self.scheduler = ManualScheduler(self.clock)
        self.rebalances, self.heartbeats = self._purgatory("Rebalance"), self._purgatory("Heartbeat")
        self.core = GroupCoordinator(
            self.log,
            1,
            Surroundings(self.clock, SystemChance(), self.scheduler, self.rebalances, self.heartbeats, NULL_METRICS),
            GroupConfig(initial_rebalance_delay_ms=1),
        )
        self.core.startup()
        self.core.on_election(0, 0)
        self.scheduler.tick()

    def _purgatory(self, name: str) -> Purgatory[Any]:
        return Purgatory(name, SystemTimer(name, self.clock, InlineExecutor()), reaper_enabled=False)

    def join(self, group_id: str, protocols: tuple[tuple[str, bytes], ...]) -> list[JoinResult]:
        answers: list[JoinResult] = []
        request = JoinRequest(
            group_id, "", "client", "/127.0.0.1", 30_000, 60_000, "consumer", protocols, require_known_member_id=False
        )
        self.core.join_group(request, answers.append)
        return answers

    def pass_time(self) -> None:
        for _ in range(3):
            self.clock.advance(1)
            while self.rebalances.step():
                pass

    def stable_group(self, group_id: str) -> JoinResult:
        answers = self.join(group_id, (("range", subscription()),))
        self.pass_time()
        (member,) = answers
        done: list[SyncResult] = []
        self.core.sync_group(
            SyncRequest(group_id, 1, member.member_id, assignment={member.member_id: b"x" * 50}), done.append
        )
        assert done[0].error is ErrorCode.NONE
        return member

    def commit(self, member: JoinResult, group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        committer = Committer(group_id, member.member_id, None, member.generation_id)
        results: list[Any] = []
        self.core.offsets.commit(committer, offsets, results.append)
        assert all(error is ErrorCode.NONE for error in results[0].values())


def subscription() -> bytes:
    return ConsumerProtocolSubscription(topics=["topic"]).encode_versioned(1)


def offsets_of(count: int, value: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition("topic", n): OffsetAndMetadata(value, 0, "", 1_700_000_000_000) for n in range(count)}


def measure_commits(sizes: list[int], repeats: int, rounds: int) -> dict[int, float]:
    """Median µs of processor time of a member's commit of one offset, in a random one of so many groups."""
    benches, members = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        for size in sizes:
            bench = benches[size] = Bench(Path(directory) / str(size))
            members[size] = [(f"group-{n}", bench.stable_group(f"group-{n}")) for n in range(size)]
        gc.collect()
        gc.freeze()
        samples: dict[int, list[float]] = {size: [] for size in sizes}
        for repeat in range(repeats + 1):
            for size in sizes:
                picks = random.Random(repeat).choices(members[size], k=rounds)
                requests = [(group, member, offsets_of(1, repeat)) for group, member in picks]
                start = time.thread_time_ns()
                for group, member, offsets in requests:
                    benches[size].commit(member, group, offsets)
                if repeat:
                    samples[size].append((time.thread_time_ns() - start) / rounds / 1_000)
        gc.unfreeze()
    return {size: round(statistics.median(values), 1) for size, values in samples.items()}


def measure_memory(groups: int) -> dict[str, float]:
    """MB and KB a group with one member and ten offsets each."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory) / "log")
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(groups):
            member = bench.stable_group(f"group-{number}")
            bench.commit(member, f"group-{number}", offsets_of(10, number))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    return {"groups": groups, "mb": round(used / 1e6, 1), "kb_per_group": round(used / groups / 1e3, 2)}


def measure_load(commits: int) -> dict[str, Any]:
    """Seconds of processor time to load commits, ten a batch: of 1,000 keys, and of keys that all differ."""
    result: dict[str, Any] = {"commits": commits}
    for name, groups in (("few_keys", 100), ("all_different", commits // 10)):
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(Path(directory) / "log")
            for number in range(commits // 10):
                bench.core.offsets.commit(Committer(f"group-{number % groups}"), offsets_of(10, number), lambda _: None)
            bench.core.on_resignation(0, 1)
            bench.scheduler.tick()
            gc.collect()
            start = time.thread_time()
            bench.core.on_election(0, 2)
            bench.scheduler.tick()
            result[f"{name}_s"] = round(time.thread_time() - start, 2)
            assert len(bench.core.owned.all_groups()) == min(groups, commits // 10)
    return result


def measure_rebalance(repeats: int) -> float:
    """Median ms of processor time of a rebalance of 100 members and 1,000 partitions."""
    samples = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(Path(directory) / "log")
            protocols = (("range", subscription()), ("roundrobin", subscription()))
            start = time.thread_time_ns()
            answers = [bench.join("group", protocols) for _ in range(MEMBERS)]
            bench.pass_time()
            members = [answer[0] for answer in answers]
            assignment = assignments([member.member_id for member in members])
            done: list[SyncResult] = []
            for member in members:
                given = assignment if member.member_id == member.leader_id else {}
                bench.core.sync_group(SyncRequest("group", 1, member.member_id, assignment=given), done.append)
            samples.append((time.thread_time_ns() - start) / 1e6)
            assert sum(result.error is ErrorCode.NONE for result in done) == MEMBERS
    return round(statistics.median(samples), 1)


def assignments(member_ids: list[str]) -> dict[str, bytes]:
    share = PARTITIONS // len(member_ids)
    return {
        member_id: ConsumerProtocolAssignment(
            assigned_partitions=[AssignedTopic(topic="topic", partitions=list(range(n * share, (n + 1) * share)))]
        ).encode_versioned(1)
        for n, member_id in enumerate(member_ids)
    }


# --- over sockets ---


async def rebalance_over_sockets(host: str, port: int, group: str = "rebalance") -> float:
    """Seconds from the first JoinGroup to the last assignment, a connection a member."""
    connections = await asyncio.gather(*(AsyncConnection.open(host, port, f"m{n}") for n in range(MEMBERS)))
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription())]

    def join(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=60_000, member_id=member_id,
            protocol_type="consumer", protocols=protocols,
        )  # fmt: skip

    try:
        refused = await asyncio.gather(*(each.call(join(""), 5) for each in connections))
        ids = [answer.member_id for answer in refused]
        start = time.perf_counter()
        joined = await asyncio.gather(*(c.call(join(i), 5) for c, i in zip(connections, ids, strict=True)))
        while len({answer.generation_id for answer in joined}) > 1 or any(answer.error_code for answer in joined):
            joined = await asyncio.gather(*(c.call(join(i), 5) for c, i in zip(connections, ids, strict=True)))
        given = assignments(ids)
        rows = [SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in given.items()]
        synced = await asyncio.gather(
            *(
                connection.call(
                    SyncGroupRequest(
                        group_id=group,
                        generation_id=answer.generation_id,
                        member_id=answer.member_id,
                        assignments=rows if answer.member_id == answer.leader else [],
                    ),
                    3,
                )
                for connection, answer in zip(connections, joined, strict=True)
            )
        )
        spent = time.perf_counter() - start
        assert all(answer.error_code == 0 for answer in synced), {answer.error_code for answer in synced}
        return spent
    finally:
        for connection in connections:
            await connection.close()


async def commits_over_sockets(host: str, port: int, connections: int, each: int) -> float:
    """Commits/s of one offset each by simple consumers of different groups, one request in flight a connection."""

    async def run(number: int) -> None:
        connection = await AsyncConnection.open(host, port, f"c{number}")
        try:
            for offset in range(each):
                partition = OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=offset, committed_metadata=""
                )
                request = OffsetCommitRequest(
                    group_id=f"commits-{number}",
                    topics=[OffsetCommitRequestTopic(name="topic", partitions=[partition])],
                )
                answer = await connection.call(request, 7)
                assert answer.topics[0].partitions[0].error_code == 0
        finally:
            await connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(run(number) for number in range(connections)))
    return connections * each / (time.perf_counter() - start)


def measure_broker(quick: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        ports = free_ports(2)
        zookeeper = ZooKeeperServer(Path(directory) / "zookeeper", ports[0])
        cluster = None
        try:
            zookeeper.wait_until_ready(SystemClock())
            settings = {"group.initial.rebalance.delay.ms": "300", "offsets.topic.num.partitions": "10"}
            cluster = DevCluster([ports[1]], Path(directory) / "cluster", zookeeper.connect, SystemClock(), settings)
            cluster.start()
            with ClusterClient(cluster.bootstrap, "bench", SystemClock()) as client:
                topic = CreatableTopic(name="topic", num_partitions=1, replication_factor=1)
                client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=15_000))
                client.coordinator("commits-0")
            host, port = "127.0.0.1", ports[1]
            time.sleep(1)  # the partitions of the offsets topic are being loaded
            asyncio.run(commits_over_sockets(host, port, 4, 100))
            rates = [asyncio.run(commits_over_sockets(host, port, 8, 200 if quick else 1_000)) for _ in range(5)]
            rebalance = asyncio.run(rebalance_over_sockets(host, port))
        finally:
            if cluster is not None:
                cluster.stop()
            zookeeper.stop()
    return {"commits_per_s": round(statistics.median(rates)), "rebalance_s_with_300_ms_delay": round(rebalance, 2)}


def run(quick: bool, broker: bool) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    sizes = [10, 100, 1_000] if quick else [10, 100, 1_000, 10_000]
    commits = measure_commits(sizes, 5 if quick else 9, 500)
    result: dict[str, Any] = {
        "benchmark": "groups",
        "quick": quick,
        "commit_us": commits,
        "flatness": {"commit": round(commits[sizes[-1]] / commits[sizes[0]], 2)},
        "memory": measure_memory(2_000 if quick else 10_000),
        "load": measure_load(100_000 if quick else 1_000_000),
        "rebalance_cpu_ms": measure_rebalance(3 if quick else 5),
    }
    if broker:
        result["broker"] = measure_broker(quick)
    return result


def table(result: dict[str, Any]) -> str:
    lines = ["| what | measured |", "|---|---|"]
    costs = ", ".join(f"{size:,}: {cost}" for size, cost in result["commit_us"].items())
    lines.append(f"| µs of a commit by number of groups | {costs} (last / first {result['flatness']['commit']}) |")
    memory, load = result["memory"], result["load"]
    lines.append(f"| memory of {memory['groups']:,} groups | {memory['mb']} MB, {memory['kb_per_group']} KB each |")
    lines.append(f"| load of {load['commits']:,} commits of 1,000 keys | {load['few_keys_s']} s of CPU |")
    lines.append(f"| load of {load['commits']:,} commits of different keys | {load['all_different_s']} s of CPU |")
    lines.append(
        f"| rebalance of {MEMBERS} members, {PARTITIONS:,} partitions | {result['rebalance_cpu_ms']} ms of CPU |"
    )
    if "broker" in result:
        broker = result["broker"]
        lines.append(f"| commits/s over 8 connections to a broker | {broker['commits_per_s']:,} |")
        rebalance = broker["rebalance_s_with_300_ms_delay"]
        lines.append(f"| such a rebalance over sockets, initial delay 300 ms | {rebalance} s |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--broker", action="store_true", help="measure a broker process too")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--plot", action="store_true", help="write the table into docs/performance.md")
    arguments = parser.parse_args()
    result = run(arguments.quick, arguments.broker)
    if arguments.plot:
        text = "`python -m benchmarks.groups --broker --plot` wrote this; costs are medians.\n\n" + table(result)
        replace_section(DOCS / "performance.md", "Group coordinator", text)
    print(json.dumps(result) if arguments.json else table(result))


if __name__ == "__main__":
    main()
