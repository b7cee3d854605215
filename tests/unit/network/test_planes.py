"""Control plane, throttling, callbacks, shutdown and metrics."""

from __future__ import annotations

import threading
import time

import pytest

from network.server.inline import InlineRule
from network.server.request import Request
from network.server.server_config import ListenerConfig
from tests.support.sockets import EchoBroker, Servers, produce_frame, wait_until

INLINE = InlineRule({0: None})
BOTH = pytest.mark.parametrize("inline", [None, INLINE], ids=["pool", "inline"])


def test_the_control_plane_is_served_while_the_data_plane_is_stuck(servers: Servers, broker: EchoBroker) -> None:
    listeners = [ListenerConfig("PLAINTEXT", "127.0.0.1", 0), ListenerConfig("CONTROL", "127.0.0.1", 0)]
    stuck = threading.Event()
    entered: list[str] = []

    def hold(request: Request) -> bool:
        entered.append(request.connection.listener_name)
        return request.connection.listener_name == "PLAINTEXT" and not stuck.wait(60)

    broker.hook = hold
    server = servers.start(
        broker,
        inline=INLINE,
        listeners=listeners,
        control_plane_listener_name="CONTROL",
        inter_broker_listener_name="PLAINTEXT",
        num_io_threads=1,
        broker_id=7,
    )
    data, control = servers.connect(server), servers.connect(server, "CONTROL")
    data.send(produce_frame(1))
    wait_until(lambda: entered == ["PLAINTEXT"], "the data plane is stuck")
    control.send(produce_frame(2))
    assert control.correlation_id() == 2
    stuck.set()
    assert data.correlation_id() == 1
    assert broker.threads == [
        "data-plane-kafka-network-thread-7-PLAINTEXT-PLAINTEXT-1",
        "control-plane-kafka-request-handler-0",
    ]
    assert [each.connection.privileged for each in broker.requests] == [False, True]
    names = {thread.name for thread in threading.enumerate()}
    assert "control-plane-kafka-network-thread-7-CONTROL-PLAINTEXT-0" in names
    port = server.bound_port("CONTROL")
    assert f"control-plane-kafka-socket-acceptor-CONTROL-PLAINTEXT-{port}" in names


@BOTH
def test_a_throttled_connection_is_answered_at_once_and_read_later(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    def throttle(request: Request) -> bool:
        if request.header.correlation_id == 1:
            request.start_throttle(200)
        return False

    broker.hook = throttle
    server = servers.start(broker, inline=inline)
    client, other = servers.connect(server), servers.connect(server)
    client.send(produce_frame(1), produce_frame(2), produce_frame(3))
    assert client.correlation_id() == 1
    other.send(produce_frame(9))
    assert other.correlation_id() == 9
    assert [client.correlation_id(), client.correlation_id()] == [2, 3]
    first = broker.requests[0]
    second = next(each for each in broker.requests if each.header.correlation_id == 2)
    assert second.received_ns - first.dequeued_ns >= 200_000_000


def test_throttle_that_ends_before_the_response(servers: Servers, broker: EchoBroker) -> None:
    held: list[Request] = []

    def hold(request: Request) -> bool:
        if request.header.correlation_id == 1:
            request.start_throttle(10)
            held.append(request)
        return bool(held) and request is held[0]

    broker.hook = hold
    client = servers.connect(servers.start(broker, inline=INLINE))
    client.send(produce_frame(1), produce_frame(2))
    wait_until(lambda: len(held) == 1, "handled")
    time.sleep(0.05)  # the throttle ends meanwhile
    assert len(broker.requests) == 1
    broker.answer(held[0])
    assert [client.correlation_id(), client.correlation_id()] == [1, 2]


@BOTH
def test_requests_in_flight_are_answered_at_shutdown(
    servers: Servers, broker: EchoBroker, inline: InlineRule | None
) -> None:
    entered = threading.Event()
    go_on = threading.Event()

    def hold(request: Request) -> bool:
        entered.set()
        assert go_on.wait(60)
        return False

    broker.hook = hold
    server = servers.start(broker, inline=inline)
    client, silent = servers.connect(server), servers.connect(server)
    client.send(produce_frame(1), produce_frame(2))
    assert entered.wait(60)
    server.stop_accepting()
    stopping = threading.Thread(target=server.shutdown)
    stopping.start()
    go_on.set()
    assert client.correlation_id() == 1
    assert client.is_closed()  # and the second is not begun
    assert silent.is_closed()
    stopping.join(60)
    assert not stopping.is_alive()
    assert len(broker.requests) == 1


def test_a_parked_request_does_not_hold_up_shutdown_and_its_answer_is_dropped(
    servers: Servers, broker: EchoBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("network.server.socket_server._DRAIN_S", 100.0)  # what requests in flight get
    parked: list[Request] = []
    broker.hook = lambda request: parked.append(request) is None  # type: ignore[func-returns-value]
    server = servers.start(broker)
    client = servers.connect(server)
    client.send(produce_frame(1))
    wait_until(lambda: len(parked) == 1 and parked[0].local_done_ns > 0, "parked")
    began = time.monotonic()
    server.shutdown()
    assert time.monotonic() - began < 50
    assert client.is_closed()
    broker.answer(parked[0])
    parked[0].close_connection()


def test_ports_are_free_after_shutdown(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)
    port = server.bound_port("PLAINTEXT")
    server.shutdown()
    again = servers.start(broker, listeners=[ListenerConfig("PLAINTEXT", "127.0.0.1", port)])
    client = servers.connect(again)
    client.send(produce_frame(1))
    assert client.correlation_id() == 1
    with pytest.raises(OSError, match=f"cannot bind listener PLAINTEXT to 127.0.0.1:{port}"):
        servers.start(broker, listeners=[ListenerConfig("PLAINTEXT", "127.0.0.1", port)])


def test_times_of_a_request(servers: Servers, broker: EchoBroker) -> None:
    parked: list[Request] = []
    broker.hook = lambda request: request.header.correlation_id == 2 and parked.append(request) is None  # type: ignore[func-returns-value]
    server = servers.start(broker)
    client = servers.connect(server)
    client.send(produce_frame(1))
    assert client.correlation_id() == 1
    client.send(produce_frame(2))
    wait_until(lambda: len(parked) == 1 and parked[0].local_done_ns > 0, "parked")
    time.sleep(0.03)
    broker.answer(parked[0])
    assert client.correlation_id() == 2
    server.shutdown()

    def histogram(name: str) -> list[float]:
        return sorted(servers.metrics.histogram("kafka.network", "RequestMetrics", name, request="Produce").values)

    assert histogram("RequestBytes") == [len(produce_frame(1)) - 4] * 2
    assert histogram("RemoteTimeMs")[0] == 0
    assert histogram("RemoteTimeMs")[1] >= 30
    assert histogram("TotalTimeMs")[1] >= 30
    rate = servers.metrics.meter("kafka.network", "RequestMetrics", "RequestsPerSec", request="Produce", version="9")
    assert sum(rate.values) == 2


def test_idle_percent(servers: Servers, broker: EchoBroker) -> None:
    servers.start(broker)
    time.sleep(1.05)
    wait_until(lambda: servers.metrics.read("Processor", "IdlePercent") > 0.5, "idle")
    wait_until(lambda: servers.metrics.read("SocketServer", "NetworkProcessorAvgIdlePercent") > 0.5, "all are idle")


def test_the_pool_can_be_resized_while_it_works(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, num_io_threads=2)
    client = servers.connect(server)

    def handlers() -> int:
        return sum("request-handler" in thread.name for thread in threading.enumerate())

    for size in (4, 1, 3):
        server.handler_pool.resize(size)
        wait_until(lambda size=size: handlers() == size, f"{size} handlers")  # type: ignore[misc]
        client.send(produce_frame(size))
        assert client.correlation_id() == size


def test_network_threads_can_be_added_and_removed(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(
        broker, num_network_threads=2, queued_max_request_bytes=10**6, socket_request_max_bytes=10**6
    )

    def processors() -> list[str]:
        return sorted(thread.name[-1] for thread in threading.enumerate() if "network-thread" in thread.name)

    first = [servers.connect(server) for _ in range(2)]
    for number, client in enumerate(first):
        client.send(produce_frame(number))
        assert client.correlation_id() == number
    server.resize_network_threads(4)
    assert processors() == ["0", "1", "2", "3"]
    server.resize_network_threads(1)
    assert processors() == ["0"]
    wait_until(lambda: server.connection_count() == 1, "the connection of the removed processor is closed")
    for number in range(5):
        client = servers.connect(server)
        client.send(produce_frame(number))
        assert client.correlation_id() == number
    with pytest.raises(ValueError, match="needs a network thread"):
        server.resize_network_threads(0)


def test_shutdown_while_the_channel_is_full(servers: Servers, broker: EchoBroker) -> None:
    go_on = threading.Event()
    broker.hook = lambda request: not go_on.wait(60)
    server = servers.start(broker, queued_max_requests=1, num_io_threads=1)
    clients = [servers.connect(server) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(produce_frame(number))
    wait_until(lambda: len(server.request_channel) == 1, "the channel is full")
    stopping = threading.Thread(target=server.shutdown)
    stopping.start()
    assert all(client.is_closed() for client in clients)
    go_on.set()
    stopping.join(60)
    assert not stopping.is_alive()
