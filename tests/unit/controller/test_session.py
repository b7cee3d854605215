"""The session against a real ZooKeeper: requests, null data, watches, lost connections, expiry."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.metrics import MetricsRegistry
from controller.zk import paths
from controller.zk.change_listener import ChangeListener
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession, split_connect_string
from controller.zk.ops import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    GetMany,
    Multi,
    Request,
    Response,
    SetData,
)
from controller.zk.session import ChildHandler, ConnectTimeoutError, DataHandler, SessionExpiredError, SessionHandler
from timer.clock import SystemClock

pytestmark = pytest.mark.both_zookeepers

MakeClient = Callable[..., ZkClient]


def expire(zookeeper: str, client: ZkClient) -> None:
    """Make the server end the session, as if the client had been silent for too long."""
    from kazoo.client import KazooClient

    handle = client.session._handle  # type: ignore[attr-defined]
    thief = KazooClient(hosts=zookeeper, client_id=handle._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def drop_connection(client: ZkClient) -> None:
    """Cut the TCP connection; the session lives on."""
    handle = client.session._handle  # type: ignore[attr-defined]
    handle._client._connection._socket.shutdown(socket.SHUT_RDWR)


def test_connect_string() -> None:
    assert split_connect_string("a:1,b:2/x/y/") == ("a:1,b:2", "/x/y")
    assert split_connect_string("a:1") == ("a:1", "")
    assert split_connect_string("a:1/") == ("a:1", "")


def test_requests_and_codes(zk: ZkClient) -> None:
    submit = zk.session.submit
    created, again, missing_parent = submit([Create("/a", b"1"), Create("/a", b"2"), Create("/x/y", b"")])
    assert created.ok
    assert created.path == "/a"
    assert again.code is Code.NODE_EXISTS
    assert missing_parent.code is Code.NO_NODE
    written, wrong = submit([SetData("/a", b"3", 0), SetData("/a", b"4", 0)])
    assert written.stat is not None
    assert written.stat.version == 1
    assert wrong.code is Code.BAD_VERSION
    read, exists, absent, children = submit([GetData("/a"), Exists("/a"), Exists("/b"), GetChildren("/")])
    assert read.data == b"3"
    assert exists.ok
    assert absent.code is Code.NO_NODE
    assert list(children.children) == ["a"]
    sequential = submit([Create("/a/s_", b"", sequential=True), Create("/a/s_", b"", sequential=True)])
    assert [item.path for item in sequential] == ["/a/s_0000000000", "/a/s_0000000001"]
    assert submit([Delete("/a")])[0].code is Code.NOT_EMPTY


def test_null_data_is_not_empty_data(zk: ZkClient) -> None:
    zk.session.submit([Create("/null", None), Create("/empty", b""), Multi((Create("/multi", None),))])
    assert [item.data for item in zk.session.submit([GetData("/null"), GetData("/empty"), GetData("/multi")])] == [
        None,
        b"",
        None,
    ]


def test_multi_reports_the_failing_operation(zk: ZkClient) -> None:
    zk.session.submit([Create("/guard", b"")])
    good, bad = zk.session.submit(
        [
            Multi((Check("/guard", 0), Create("/m", b"x"), SetData("/m", b"y", 0))),
            Multi((Check("/guard", 0), Create("/m", b"x"), Delete("/guard"))),
        ]
    )
    assert good.ok
    assert good.results[2].stat is not None
    assert good.results[2].stat.version == 1
    assert bad.code is Code.NODE_EXISTS
    assert [item.code for item in bad.results] == [Code.OK, Code.NODE_EXISTS, Code.RUNTIME_INCONSISTENCY]
    assert zk.exists("/guard")


def test_pipelined_batch_keeps_order_with_few_permits(make_client: MakeClient) -> None:
    zk = make_client(max_in_flight=3)
    zk.create_recursive("/many")
    answers = zk.session.submit([Create(f"/many/{number}", str(number).encode()) for number in range(200)])
    assert [item.path for item in answers] == [f"/many/{number}" for number in range(200)]
    assert [item.data for item in zk.session.submit([GetData(f"/many/{number}") for number in range(200)])] == [
        str(number).encode() for number in range(200)
    ]


def test_reads_without_watch_travel_together(zk: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    zk.create_recursive("/r")
    zk.session.submit([Create(f"/r/{number}", None if number == 7 else str(number).encode()) for number in range(300)])
    zk.session.register_data_handler(DataHandler("/r/150"))
    handle = zk.session._handle  # type: ignore[attr-defined]
    issued: list[Request] = []
    issue = handle.issue

    def record(request: Request) -> object:
        issued.append(request)
        return issue(request)

    monkeypatch.setattr(handle, "issue", record)
    paths = [f"/r/{number}" for number in range(301)]
    answers = zk.session.submit([GetData(path) for path in paths])
    assert [type(item) for item in issued] == [GetMany, GetMany, GetData, GetMany, GetMany]
    assert [item.data for item in answers[:3]] == [b"0", b"1", b"2"]
    assert answers[7].data is None
    assert answers[7].ok
    assert answers[299].stat is not None
    assert answers[299].stat.version == 0
    assert answers[300].code is Code.NO_NODE

    # A server before 3.6 does not know multiRead: everything is read one by one from then on.
    await_response = handle.await_response

    def refuse(request: Request, pending: object) -> Response:
        response: Response = await_response(request, pending)
        return Response(Code.UNIMPLEMENTED) if isinstance(request, GetMany) else response

    monkeypatch.setattr(handle, "await_response", refuse)
    assert zk.session.submit([GetData(path) for path in paths]) == answers
    issued.clear()
    assert zk.session.submit([GetData(path) for path in paths]) == answers
    assert {type(item) for item in issued} == {GetData}


def test_concurrent_submitters_share_the_permits(make_client: MakeClient) -> None:
    zk = make_client(max_in_flight=4)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(5):
                answers = zk.session.submit([Exists("/")] * 20)
                assert all(item.ok for item in answers)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_watches_fire_once_and_only_with_a_handler(zk: ZkClient, make_client: MakeClient) -> None:
    other = make_client()
    events: queue.Queue[str] = queue.Queue()
    zk.session.register_data_handler(
        DataHandler(
            "/w",
            on_created=lambda: events.put("created"),
            on_deleted=lambda: events.put("deleted"),
            on_changed=lambda: events.put("changed"),
        )
    )
    assert not zk.exists("/w")
    other.create_recursive("/w", b"1")
    assert events.get(timeout=60) == "created"
    other.session.submit([SetData("/w", b"2")])
    zk.read("/w")
    other.session.submit([SetData("/w", b"3"), SetData("/w", b"4")])
    assert events.get(timeout=60) == "changed"
    zk.read("/w")
    other.session.submit([Delete("/w")])
    assert events.get(timeout=60) == "deleted"

    zk.session.register_child_handler(ChildHandler("/", lambda: events.put("children")))
    zk.children("/", watch=False)
    other.create_recursive("/quiet")
    zk.children("/")
    other.create_recursive("/loud")
    assert events.get(timeout=60) == "children"
    zk.session.unregister_child_handler("/")
    zk.children("/")
    other.create_recursive("/unheard")
    assert events.empty()


def test_reconnect_delivers_what_was_missed(zk: ZkClient, make_client: MakeClient) -> None:
    other = make_client()
    events: queue.Queue[str] = queue.Queue()
    for name in ("appears", "vanishes", "changes", "stays"):
        zk.session.register_data_handler(
            DataHandler(
                f"/{name}",
                on_created=lambda name=name: events.put(f"{name} created"),  # type: ignore[misc]
                on_deleted=lambda name=name: events.put(f"{name} deleted"),  # type: ignore[misc]
                on_changed=lambda name=name: events.put(f"{name} changed"),  # type: ignore[misc]
            )
        )
    zk.session.register_child_handler(ChildHandler("/parent", lambda: events.put("child")))
    for path in ("/vanishes", "/changes", "/stays", "/parent"):
        zk.create_recursive(path)
    zk.children("/parent")
    for name in ("appears", "vanishes", "changes", "stays"):
        zk.exists(f"/{name}")
    session_id = zk.session.session_id

    handle = zk.session._handle  # type: ignore[attr-defined]
    blocked = threading.Event()
    create_connection = handle._threads.create_connection

    def wait_then_connect(*args: object, **kwargs: object) -> object:
        blocked.wait(60)
        return create_connection(*args, **kwargs)

    handle._threads.create_connection = wait_then_connect
    drop_connection(zk)
    other.create_recursive("/appears")
    other.create_recursive("/parent/child")
    other.session.submit([Delete("/vanishes"), SetData("/changes", b"new")])
    blocked.set()

    assert {events.get(timeout=60) for _ in range(4)} == {
        "appears created",
        "vanishes deleted",
        "changes changed",
        "child",
    }
    assert zk.session.session_id == session_id
    # The watches are there again after the reconnect.
    other.session.submit([SetData("/stays", b"1")])
    assert events.get(timeout=60) == "stays changed"


def test_nothing_is_kept_of_paths_that_nobody_watches_any_more(zk: ZkClient) -> None:
    """A controller watches every topic, and topics come and go."""
    handle = zk.session._handle  # type: ignore[attr-defined]
    before = len(handle._seen_data), len(handle._seen_children)
    for number in range(5):
        path = f"/passing-{number}"
        zk.session.register_data_handler(DataHandler(path))
        zk.session.register_child_handler(ChildHandler(path, lambda: None))
        zk.create_recursive(path)
        assert zk.exists(path)
        zk.children(path)
        zk.session.submit([Delete(path)])
        zk.session.unregister_data_handler(path)
        assert path in handle._seen_children
        zk.session.unregister_child_handler(path)
    assert (len(handle._seen_data), len(handle._seen_children)) == before


def test_requests_survive_a_lost_connection(zk: ZkClient) -> None:
    zk.create_recursive("/n", b"0")
    for number in range(5):
        drop_connection(zk)
        answers = zk.session.submit([SetData("/n", str(number).encode()), GetData("/n")])
        assert [item.code for item in answers] == [Code.OK, Code.OK]


def test_expiry_runs_the_handlers_around_a_new_session(zookeeper: str, zk: ZkClient) -> None:
    calls: queue.Queue[tuple[str, int]] = queue.Queue()
    zk.session.register_session_handler(
        SessionHandler(
            "test",
            before_new_session=lambda: calls.put(("before", zk.session.session_id)),
            after_new_session=lambda: calls.put(("after", zk.session.session_id)),
        )
    )
    first = zk.session.session_id
    zk.session.submit([Create("/mine", b"", ephemeral=True)])
    expire(zookeeper, zk)
    assert calls.get(timeout=60) == ("before", first)
    after, second = calls.get(timeout=60)
    assert after == "after"
    assert second not in (0, first)
    assert not zk.exists("/mine")


def test_a_request_never_crosses_into_the_next_session(zookeeper: str, zk: ZkClient) -> None:
    in_hook = threading.Event()
    outcome: queue.Queue[object] = queue.Queue()

    def before() -> None:
        try:
            zk.session.submit([Create("/late", b"")])
        except SessionExpiredError as error:
            outcome.put(error)
        in_hook.set()

    zk.session.register_session_handler(SessionHandler("test", before_new_session=before))
    expire(zookeeper, zk)
    assert in_hook.wait(60)
    assert isinstance(outcome.get(timeout=1), SessionExpiredError)
    assert not zk.exists("/late")


def test_requests_are_timed_one_by_one_and_waits_by_thread(make_client: MakeClient) -> None:
    metrics = MetricsRegistry()
    session = make_client(clock=SystemClock(), metrics=metrics).session
    before = session.waited_ns()
    began = time.monotonic_ns()
    session.submit([Create(f"/timed-{number}", b"") for number in range(50)])
    took = time.monotonic_ns() - began
    assert 0 < session.waited_ns() - before <= took
    latency = metrics.histogram("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
    assert latency.count == 50
    assert 0 < latency.minimum <= latency.maximum <= took / 1e6
    # Requests on the wire together wait together: the caller has not waited for the sum of their latencies.
    elsewhere: list[int] = []
    thread = threading.Thread(target=lambda: elsewhere.append(session.waited_ns()))
    thread.start()
    thread.join(60)
    assert elsewhere == [0]


def test_closed_session_refuses(zk: ZkClient) -> None:
    zk.session.submit([Create("/e", b"", ephemeral=True)])
    zk.close()
    zk.close()
    with pytest.raises(SessionExpiredError):
        zk.read("/e")


def test_connect_timeout_is_an_error() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        session = KazooSession(
            f"127.0.0.1:{silent.getsockname()[1]}", session_timeout_ms=600, connection_timeout_ms=300
        )
        with pytest.raises(ConnectTimeoutError):
            session.start()


def test_an_unexpected_error_in_making_a_new_session_is_not_the_last_attempt(zookeeper: str, zk: ZkClient) -> None:
    session = zk.session
    assert isinstance(session, KazooSession)
    first, opened = session.session_id, session._open_handle
    failures = [ValueError("planted")]

    def open_handle() -> Any:
        if failures:
            raise failures.pop()
        return opened()

    session._open_handle = open_handle  # type: ignore[method-assign]
    again = threading.Event()
    session.register_session_handler(SessionHandler("test", after_new_session=again.set))
    expire(zookeeper, zk)
    assert again.wait(60)
    assert session.session_id not in (0, first)
    assert failures == []
    assert session._renewer.failures >= 1  # on a busy machine the attempt after it may fail too


def test_a_listener_reads_again_after_an_unexpected_error(zk: ZkClient, make_client: MakeClient) -> None:
    seen: list[bytes] = []
    seen_two = threading.Event()

    def process(data: bytes) -> None:
        seen.append(data)
        if b"two" in data:
            seen_two.set()

    zk.create_startup_paths()
    listener = ChangeListener(zk, paths.CONFIG_CHANGES, paths.CONFIG_CHANGE_PREFIX, process, SystemClock())
    listener.start()
    children, failures = zk.children, [ValueError("planted")]

    def list_once_in_vain(path: str, **options: Any) -> list[str]:
        if failures:
            raise failures.pop()
        return children(path, **options)

    zk.children = list_once_in_vain  # type: ignore[method-assign, assignment]
    make_client().create_config_change("topics/two")
    assert seen_two.wait(60), "the notification whose read failed was never read again"
    assert failures == []
    listener.close()
