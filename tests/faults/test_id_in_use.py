"""A broker whose id ZooKeeper still knows: after kill -9 it waits for the end of the old session; about a minute."""

from __future__ import annotations

import re
from collections.abc import Callable

from broker.dev.polling import wait_until
from broker.registration import MARGIN_MS
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster

SESSION_MS = 6_000
LONG_SESSION_MS = 18_000
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
HELD = "Broker id {} is already registered by session"


def lines(broker: Broker, text: str) -> list[str]:
    return [line for line in broker.log_tail(1_000).splitlines() if text in line]


def wait_held(broker: Broker, of: int) -> None:
    """Until it says that it waits."""
    assert wait_until(lambda: bool(lines(broker, HELD.format(of))), CLOCK, 30_000), broker.log_tail()


def await_end(broker: Broker, timeout_ms: int) -> int:
    """The exit code of a process that ends by itself."""
    process = broker.process
    assert process is not None
    assert wait_until(lambda: not process.is_running, CLOCK, timeout_ms), broker.log_tail()
    code = process.poll()
    assert code is not None
    return code


def test_a_killed_broker_that_is_started_at_once_serves_again(make_cluster: Callable[..., Cluster]) -> None:
    # Long enough for the new process to find the old session, however busy the machine is.
    cluster = make_cluster(["odradek"], settings={"zookeeper.session.timeout.ms": str(LONG_SESSION_MS)})
    broker = cluster.brokers[0]
    broker.kill()
    broker.start()
    wait_held(broker, broker.broker_id)
    cluster.wait_ready()
    answer = wire.call(broker, MetadataRequest(topics=[]), 9)
    assert [each.node_id for each in answer.brokers] == [broker.broker_id]
    (line,) = lines(broker, HELD.format(broker.broker_id))
    assert re.search(rf"waiting for the end of that session, at most {(LONG_SESSION_MS + MARGIN_MS) // 1000} s", line)
    assert len(lines(broker, "the id is free after")) == 1
    assert "Traceback" not in broker.log_tail(1_000)


def test_a_second_broker_with_an_id_in_use_ends_with_one_line(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(["odradek", "odradek"], settings=SETTINGS)
    first, second = cluster.brokers
    assert second.stop() == 0
    second.settings["broker.id"] = str(first.broker_id)
    (second.log_dirs[0] / "meta.properties").unlink()
    second.start()
    wait_held(second, first.broker_id)
    assert await_end(second, SESSION_MS + MARGIN_MS + 30_000) == 1
    (fatal,) = lines(second, "CRITICAL")
    assert f"could not be started: {HELD.format(first.broker_id)}" in fatal
    assert "Traceback" not in second.log_tail(1_000)
    wire.call(first, MetadataRequest(topics=[]), 9)


def test_a_stop_while_it_waits_ends_it_at_once(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(["odradek"], settings={"zookeeper.session.timeout.ms": str(LONG_SESSION_MS)})
    broker = cluster.brokers[0]
    broker.kill()
    broker.start()
    wait_held(broker, broker.broker_id)
    assert broker.stop() == 0
    assert len(lines(broker, "stopped while waiting")) == 1
    assert not lines(broker, "the id is free"), "it has waited for the session"
    assert "Traceback" not in broker.log_tail(1_000)
