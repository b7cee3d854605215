"""Every bound of the socket server and what happens at it."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from network.server.connection_quotas import (
    ConnectionQuotas,
    ConnectionRate,
    ConnectionRateExceeded,
    QuotaWindow,
    TooManyConnections,
)
from network.server.inline import NEVER
from network.server.memory_pool import MemoryPool
from network.server.processor import Processor
from network.server.request import Request
from network.server.request_channel import RequestChannel
from network.server.request_metrics import RequestMetrics
from network.server.server_config import NEW_CONNECTIONS_PER_PROCESSOR, ListenerConfig
from tests.support.sockets import EchoBroker, RawClient, Servers, produce_frame, wait_until
from timer.clock import ManualClock
from timer.metrics import NULL_METRICS


def serves(client: RawClient, number: int = 1) -> bool:
    client.send(produce_frame(number))
    return client.correlation_id() == number


def has_answer(client: RawClient) -> bool:
    client.socket.settimeout(0.1)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        client.socket.settimeout(10)


# -- connections -----------------------------------------------------------------------------------------------------


def test_one_connection_too_many_from_an_address_is_closed_at_once(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, max_connections_per_ip=2)
    first, second = servers.connect(server), servers.connect(server)
    assert serves(first)
    assert serves(second)
    assert servers.connect(server).is_closed()
    first.close()
    wait_until(lambda: server.connection_count() == 1, "the slot is free")
    assert serves(servers.connect(server))


def test_an_override_goes_before_the_limit_of_addresses(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 1})
    assert serves(servers.connect(server))
    assert servers.connect(server).is_closed()


@pytest.mark.parametrize("of_listener", [False, True])
def test_connections_beyond_the_total_wait_for_a_slot(servers: Servers, broker: EchoBroker, of_listener: bool) -> None:
    listener = ListenerConfig("PLAINTEXT", "127.0.0.1", 0, max_connections=2 if of_listener else 10)
    server = servers.start(broker, listeners=[listener], max_connections=10 if of_listener else 2)
    first, second = servers.connect(server), servers.connect(server)
    assert serves(first)
    assert serves(second)
    third = servers.connect(server)  # lies in the backlog
    third.send(produce_frame(3))
    assert not has_answer(third)
    first.close()
    assert third.correlation_id() == 3


def test_the_inter_broker_listener_goes_over_the_total_and_pushes_a_client_out(
    servers: Servers, broker: EchoBroker
) -> None:
    listeners = [ListenerConfig("PLAINTEXT", "127.0.0.1", 0), ListenerConfig("INTERNAL", "127.0.0.1", 0)]
    server = servers.start(broker, listeners=listeners, inter_broker_listener_name="INTERNAL", max_connections=2)
    old, recent = servers.connect(server), servers.connect(server)
    assert serves(old)
    assert serves(recent)
    inside = servers.connect(server, "INTERNAL")
    assert serves(inside)
    assert broker.requests[-1].connection.privileged
    assert not broker.requests[0].connection.privileged
    assert old.is_closed()
    assert serves(recent)
    assert server.connection_count() == 2


def test_rate_over_the_window() -> None:
    rate = ConnectionRate(2, QuotaWindow(samples=11, size_ms=1000))
    for _ in range(20):
        assert rate.delay_ms(1000, 1) == 0
        rate.record(1000)
    assert rate.delay_ms(1000, 1) == 500  # 21 in 10 s is 2.1 a second, 5 % too much
    assert rate.delay_ms(1500, 1) == 0
    for _ in range(100):
        rate.record(1000)
    assert rate.delay_ms(1000) == 1000  # never longer than one window
    assert rate.delay_ms(13_000) == 0
    assert rate.idle


def make_quotas(clock: ManualClock, **options: object) -> ConnectionQuotas:
    options.setdefault("listeners", {"A": (2**31 - 1, 2**31 - 1)})
    return ConnectionQuotas(clock, protected_listener=None, **options)  # type: ignore[arg-type]


def test_an_address_that_connects_too_often_is_refused_and_not_counted() -> None:
    clock = ManualClock(1_000)
    quotas = make_quotas(clock)
    quotas.update_ip_rate("10.0.0.1", 1)
    for _ in range(10):
        quotas.admit("A", "10.0.0.1", lambda: False)
    with pytest.raises(ConnectionRateExceeded) as refused:
        quotas.admit("A", "10.0.0.1", lambda: False)
    assert refused.value.throttle_ms == 1000
    assert quotas.count_of("10.0.0.1") == 10
    quotas.admit("A", "10.0.0.2", lambda: False)  # others are not limited
    clock.advance(12_000)
    quotas.admit("A", "10.0.0.1", lambda: False)
    quotas.update_ip_rate("10.0.0.1", None)
    for _ in range(20):
        quotas.admit("A", "10.0.0.1", lambda: False)
    assert quotas.total == 32


def test_counts_go_down_to_nothing() -> None:
    quotas = make_quotas(ManualClock(), max_connections_per_ip=1)
    quotas.admit("A", "a", lambda: False)
    with pytest.raises(TooManyConnections):
        quotas.admit("A", "a", lambda: False)
    quotas.release("A", "a")
    assert (quotas.total, quotas.count("A"), quotas.count_of("a")) == (0, 0, 0)


def test_an_address_over_its_rate_is_kept_unread_and_then_closed(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker)
    server.quotas.update_ip_rate("127.0.0.1", 0.1)  # one in ten seconds
    assert serves(servers.connect(server))
    late = servers.connect(server)
    late.send(produce_frame(2))
    assert late.is_closed()
    assert len(broker.requests) == 1
    assert server.connection_count() == 1


def test_the_acceptor_waits_when_connections_come_too_fast(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, max_connection_creation_rate=1)
    clients = [servers.connect(server) for _ in range(11)]
    for client in clients[:10]:
        assert serves(client)
    assert serves(clients[10])
    blocked = servers.metrics.meter("kafka.network", "Acceptor", "AcceptorBlockedPercent", listener="PLAINTEXT")
    assert sum(blocked.values) >= 100_000_000  # nanoseconds


def test_a_processor_queues_twenty_new_connections(servers: Servers, broker: EchoBroker) -> None:
    cold_reads = ThreadPoolExecutor(1)
    processor = Processor(
        0,
        ListenerConfig("A", "", 0),
        RequestChannel(1, servers.clock),
        broker,
        name="p",
        inline=NEVER,
        quotas=make_quotas(ManualClock()),
        memory_pool=None,
        request_metrics=RequestMetrics(NULL_METRICS),
        cold_reads=cold_reads,
        clock=servers.clock,
        privileged=False,
        max_request_bytes=1000,
        max_idle_ms=1000,
        max_login_ms=-1,
    )
    pairs = [socket.socketpair() for _ in range(NEW_CONNECTIONS_PER_PROCESSOR + 1)]
    try:
        taken = [processor.offer(pair[0], "a") for pair in pairs]
        assert taken == [True] * NEW_CONNECTIONS_PER_PROCESSOR + [False]
        assert not processor.offer(pairs[-1][0], "a", wait_ms=1)
    finally:
        for each in [sock for pair in pairs for sock in pair]:
            each.close()
        processor.shutdown()
        cold_reads.shutdown()


def test_many_connections_at_once(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, num_network_threads=3, socket_listen_backlog_size=300)
    clients = [servers.connect(server) for _ in range(200)]
    for number, client in enumerate(clients):
        client.send(produce_frame(number))
    assert [client.correlation_id() for client in clients] == list(range(200))


def test_only_the_idle_connection_is_closed(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, connections_max_idle_ms=2_000)
    busy, idle = servers.connect(server), servers.connect(server)
    assert serves(busy)
    assert serves(idle)
    done = threading.Event()

    def keep_busy() -> None:
        while not done.wait(0.05):
            assert serves(busy)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        assert idle.is_closed()
    finally:
        done.set()
        thread.join()
    assert serves(busy)


# -- requests --------------------------------------------------------------------------------------------------------


class Gate:
    """Holds handlers until it is opened."""

    def __init__(self) -> None:
        self.entered = 0
        self._open = threading.Event()

    def __call__(self, request: Request) -> bool:
        self.entered += 1
        assert self._open.wait(60)
        return False

    def open(self) -> None:
        self._open.set()


def test_a_full_channel_blocks_the_processor_and_loses_nothing(servers: Servers, broker: EchoBroker) -> None:
    gate = Gate()
    broker.hook = gate
    server = servers.start(broker, queued_max_requests=2, num_io_threads=1)
    clients = [servers.connect(server) for _ in range(10)]
    for number, client in enumerate(clients):
        client.send(produce_frame(number))
    wait_until(lambda: gate.entered == 1 and len(server.request_channel) == 2, "the channel is full")
    assert servers.metrics.read("RequestChannel", "RequestQueueSize") == 2
    assert not has_answer(clients[-1])
    assert len(server.request_channel) == 2
    gate.open()
    assert [client.correlation_id() for client in clients] == list(range(10))


def test_memory_pool_grants_while_anything_is_free() -> None:
    pool = MemoryPool(100)
    woken: list[int] = []
    pool.subscribe(lambda: woken.append(pool.available))
    assert pool.try_allocate(99)
    assert pool.try_allocate(500)
    assert pool.available == -499
    assert not pool.try_allocate(1)
    pool.release(500)
    assert woken == [1]
    assert pool.try_allocate(1)
    pool.release(1)
    pool.release(99)
    assert woken == [1]
    assert pool.available == 100


@pytest.mark.parametrize("size", [2000, 200_000], ids=["read in one go", "read in parts"])
def test_requests_wait_for_memory_and_go_on(servers: Servers, broker: EchoBroker, size: int) -> None:
    gate = Gate()
    broker.hook = gate
    server = servers.start(
        broker, queued_max_request_bytes=size, socket_request_max_bytes=size + 1000, num_io_threads=4
    )
    clients = [servers.connect(server) for _ in range(4)]
    for number, client in enumerate(clients):
        client.send(produce_frame(number, size=size))
    wait_until(lambda: gate.entered == 1, "one request is handled")
    pool = server.memory_pool
    assert pool is not None
    assert pool.available < 0
    assert servers.metrics.read("SocketServer", "MemoryPoolUsed") == pool.used > size
    assert not any(has_answer(client) for client in clients)
    assert gate.entered == 1
    gate.open()
    assert [client.correlation_id() for client in clients] == list(range(4))
    wait_until(lambda: pool.used == 0, "everything is given back")


def test_memory_of_a_half_read_request_is_given_back(servers: Servers, broker: EchoBroker) -> None:
    server = servers.start(broker, queued_max_request_bytes=1_000_000)
    client = servers.connect(server)
    client.send(produce_frame(1, size=500_000)[:300_000])
    pool = server.memory_pool
    assert pool is not None
    wait_until(lambda: pool.used > 500_000, "memory is taken")
    client.close()
    wait_until(lambda: pool.used == 0, "memory is given back")


def test_a_connection_that_waits_for_memory_and_leaves_is_forgotten(servers: Servers, broker: EchoBroker) -> None:
    gate = Gate()
    broker.hook = gate
    server = servers.start(broker, queued_max_request_bytes=1000, socket_request_max_bytes=5000, num_io_threads=1)
    first, second = servers.connect(server), servers.connect(server)
    first.send(produce_frame(1, size=2000))
    wait_until(lambda: gate.entered == 1, "memory is taken")
    second.send(produce_frame(2))
    second.close()
    gate.open()
    assert first.correlation_id() == 1
    wait_until(lambda: server.connection_count() == 1, "the other one is gone")
    assert serves(first)
