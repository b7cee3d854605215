"""The workloads of `make bench` with clients of their own run, a little of each, and give a figure in every unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks import client_load, connections, group_load
from benchmarks.rounds import Workloads
from benchmarks.targets import OdradekTarget
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.support.cluster import CLOCK
from tests.support.zookeeper_servers import zookeeper_server


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekTarget]:
    """One broker, as the benchmarks start it."""
    directory = tmp_path_factory.mktemp("bench")
    server = zookeeper_server("embedded", directory / "zookeeper", free_ports(1)[0])
    try:
        server.wait_until_ready(CLOCK)
        broker = OdradekTarget(directory, server.connect, group_load.DELAY)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
    finally:
        server.stop()


def of_clients(target: OdradekTarget) -> Callable[[int], Workloads]:
    loads = (client_load.Load(codec="lz4"), client_load.Load(size=100, acks="all", partitions=3))
    return client_load.workloads(target, client_load.Scale(1, 1_000_000, 0.1, loads))


def of_connections(target: OdradekTarget) -> Callable[[int], Workloads]:
    return connections.workloads(target, 30, 5, 0.1)


def of_groups(target: OdradekTarget) -> Callable[[int], Workloads]:
    group_load.prepare(target)
    return group_load.workloads(target, 0.1)


@pytest.mark.parametrize(("make", "count"), [(of_clients, 6), (of_connections, 2), (of_groups, 2)])
def test_every_workload_gives_figures(
    target: OdradekTarget, make: Callable[[OdradekTarget], Callable[[int], Workloads]], count: int
) -> None:
    workloads = make(target)(0)
    assert len(workloads) == count
    for name, work in workloads.items():
        found = work()
        assert found, name
        assert all(value >= 0 for unit, value in found.items() if unit != "KB each"), (name, found)
        assert all(found[unit] > 0 for unit in ("MB/s", "per s", "s", "ms, p50") if unit in found), (name, found)


def test_files_are_found_that_the_system_is_to_forget(target: OdradekTarget) -> None:
    target.create_topic("forgotten", 2)
    try:
        files = target.directory.glob
        assert wait_until(lambda: len(list(files("data/forgotten-*/*.log"))) == 2, CLOCK, 30_000)
        client_load.forget_files(target.directory, "forgotten")
    finally:
        target.delete_topic("forgotten")
