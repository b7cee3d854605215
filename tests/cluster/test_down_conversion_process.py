"""A broker whose process for conversions is there when it is needed, dies, and is gone with the broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from benchmarks.targets import children
from log.records.old_formats import iter_entries
from log.records.record import iter_records
from tests.support import wire
from tests.support.cluster import running_cluster
from tests.support.sockets import wait_until

VALUES = [b"%d" % number * 100 for number in range(100)]


def test_old_consumers_are_served_with_and_without_it(tmp_path: Path, zookeeper: str) -> None:
    with running_cluster(["odradek"], tmp_path, f"{zookeeper}/down-conversion") as cluster:
        (broker,) = cluster.brokers
        assert broker.process is not None
        broker_pid = broker.process.pid

        def fetch(topic: str, version: int = 2) -> list[bytes | None]:
            answer = wire.fetch(broker, topic, 0, version=version)
            entries = iter_entries(bytes(answer.records or b""))  # type: ignore[arg-type]
            return [record.value for entry in entries for record in iter_records(entry)]

        topic = wire.create_topic(cluster)
        wire.produce(broker, topic, wire.batch(VALUES))
        assert fetch(topic, version=4) == VALUES
        assert children(broker_pid) == []
        assert fetch(topic) == VALUES
        (pid,) = children(broker_pid)
        assert fetch(topic, version=0) == VALUES
        os.kill(pid, signal.SIGKILL)
        assert fetch(topic) == VALUES
        assert "the broker converts by itself until another one works" in broker.log_file.read_text()

        def another() -> bool:
            assert fetch(topic) == VALUES
            return children(broker_pid) not in ([], [pid])

        wait_until(another, "another process begins after a while")
        (pid,) = children(broker_pid)
        assert broker.stop() == 0
        assert not Path(f"/proc/{pid}").exists()
