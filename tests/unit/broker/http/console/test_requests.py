"""Requests are added up while somebody looks, and cost nothing otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.http.console.internals.requests import PARTS, SLOWEST, RequestWatch
from network.server.request_metrics import parts_ns

MS = 1_000_000


def request(**changes: Any) -> Any:
    """Received at 1 ms; 1 ms in the queue, 2 local, 3 remote, 4 in the queue of responses."""
    times = {
        "received_ns": MS, "dequeued_ns": 2 * MS, "local_done_ns": 4 * MS, "response_ready_ns": 7 * MS,
        "response_dequeued_ns": 11 * MS, "throttle_time_ms": 0,
    }  # fmt: skip
    header = SimpleNamespace(api_version=3, client_id=changes.pop("client_id", "me"))
    return SimpleNamespace(
        spec=SimpleNamespace(name=changes.pop("api", "Fetch")), header=header, **{**times, **changes}
    )


def test_the_six_parts() -> None:
    assert dict(zip(PARTS, parts_ns(request(throttle_time_ms=9), 16 * MS), strict=True)) == {
        "queue": MS, "local": 2 * MS, "remote": 3 * MS, "throttle": 9 * MS, "response_queue": 4 * MS, "send": 5 * MS,
    }  # fmt: skip


def test_a_handler_that_answered_before_it_returned_did_all_locally() -> None:
    parts = parts_ns(request(local_done_ns=8 * MS), 16 * MS)
    assert parts[1:3] == (5 * MS, 0)


def test_nobody_is_told_while_nobody_looks() -> None:
    watch = RequestWatch(lambda: None)
    assert watch.current() is None
    watch.note(request(), 16 * MS)
    assert watch.take() == {"apis": {}, "slowest": []}


def test_adds_up_by_api_until_it_is_taken() -> None:
    watch = RequestWatch(lambda: None)
    watch.look(True)
    note = watch.current()
    assert note is not None
    note(request(), 16 * MS)
    note(request(), 26 * MS)
    note(request(api="Produce", client_id=None), 12 * MS)
    taken = watch.take()
    assert taken["apis"]["Fetch"] == {"count": 2, "max": 25, "parts": [2, 4, 6, 0, 8, 20]}
    assert taken["apis"]["Produce"]["count"] == 1
    assert [one["client"] for one in taken["slowest"]] == ["me", "me", ""]
    assert watch.take()["apis"] == {}


def test_keeps_a_few_of_the_slowest() -> None:
    watch = RequestWatch(lambda: None)
    watch.look(True)
    for number in range(3 * SLOWEST):
        watch.note(request(client_id=f"{number}" * 500), (16 + number) * MS)
    slowest = watch.take()["slowest"]
    assert [one["client"][:2] for one in slowest] == [str(n) for n in range(3 * SLOWEST - 1, 2 * SLOWEST - 1, -1)]
    assert max(len(one["client"]) for one in slowest) == 120


def test_the_request_log_goes_on() -> None:
    logged: list[int] = []
    watch = RequestWatch(lambda: lambda _request, done: logged.append(done))
    log = watch.current()
    assert log is not None
    log(request(), 1)
    watch.look(True)
    both = watch.current()
    assert both is not None
    both(request(), 16 * MS)
    assert logged == [1, 16 * MS]
    assert watch.take()["apis"]["Fetch"]["count"] == 1
    watch.look(False)
    both(request(), 17 * MS)
    assert watch.take()["apis"] == {}
