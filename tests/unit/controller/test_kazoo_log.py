"""A ZooKeeper that is away costs a line with its address, and one when it is back."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from controller.zk.kazoo_log import KazooLog, ServerNews
from controller.zk.kazoo_session import KazooSession
from timer.clock import ManualClock, SystemClock

CLOCK = SystemClock()


def test_zookeeper_goes_and_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    server = f"127.0.0.1:{port}"

    def zookeeper() -> EmbeddedZooKeeper:
        made = EmbeddedZooKeeper(tmp_path, port, tmp_path / "log")
        made.wait_until_ready(CLOCK)
        return made

    def lines(start: str) -> list[str]:
        return [line for line in (each.getMessage() for each in list(caplog.records)) if line.startswith(start)]

    running = zookeeper()
    session = KazooSession(server, session_timeout_ms=60_000)
    tries: list[int] = []
    try:
        session.start()
        handle = session._handle
        assert handle is not None
        connect = handle._threads.create_connection

        def counted(*arguments: object, **options: object) -> socket.socket:
            tries.append(1)
            made: socket.socket = connect(*arguments, **options)
            return made

        handle._threads.create_connection = counted  # type: ignore[method-assign]
        with caplog.at_level(logging.INFO):
            running.stop()
            assert wait_until(lambda: len(tries) >= 4, CLOCK, 60_000, 50)
            running = zookeeper()
            assert wait_until(lambda: session.is_connected, CLOCK, 60_000, 50)
            assert lines("ZooKeeper at") == [
                f"ZooKeeper at {server} cannot be reached, trying on: Connection refused",
                f"ZooKeeper at {server} is reached again",
            ]
            (lost,) = lines("Connection to ZooKeeper")
            assert lost.startswith(f"Connection to ZooKeeper at {server} lost, session 0x")
            assert [
                each.getMessage() for each in caplog.records if each.name == "kazoo.client" and each.levelno >= 30
            ] == []
    finally:
        session.close()
        running.stop()


def test_what_else_kazoo_says_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = KazooLog(ServerNews(clock))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            log.warning("Cannot resolve %s: %s", "no.such.host", "unknown")
        log.warning("Session has expired")
        assert [each.getMessage() for each in caplog.records] == [
            "Cannot resolve no.such.host: unknown",
            "Session has expired",
        ]
