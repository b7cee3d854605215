"""Readiness, check by check."""

from __future__ import annotations

import asyncio
import json

import pytest

from broker.cluster.metadata_cache import LiveBroker, MetadataCache
from broker.http.health import CHECKS, Health
from broker.http.messages import HttpRequest, HttpResponse
from broker.http.wiring import metadata_check, workers_check
from network.protocol.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest
from timer.clock import ManualClock
from timer.worker import OnError, Worker, Workers

ASKED = HttpRequest("/health/ready", {}, {})


def told(response: HttpResponse) -> tuple[int, dict[str, str]]:
    assert isinstance(response.body, bytes)
    shown = json.loads(response.body)
    assert shown["status"] == ("ready" if response.status == 200 else "not ready")
    return response.status, shown["checks"]


def ready(health: Health) -> tuple[int, dict[str, str]]:
    return told(asyncio.run(health.ready(ASKED)))


def test_not_ready_until_every_check_is_announced_and_passes() -> None:
    health = Health()
    assert ready(health) == (503, dict.fromkeys(CHECKS, "not started yet"))
    for name in CHECKS:
        assert ready(health)[0] == 503
        health.add(name, lambda: None)
    assert ready(health) == (200, dict.fromkeys(CHECKS, "ok"))


@pytest.mark.parametrize("name", CHECKS)
def test_one_problem_is_enough(name: str) -> None:
    health = Health()
    for each in CHECKS:
        health.add(each, lambda: None)
    health.add(name, lambda: "gone")
    assert ready(health) == (503, {**dict.fromkeys(CHECKS, "ok"), name: "gone"})


def test_a_check_that_fails_is_a_problem() -> None:
    health = Health()

    def broken() -> str | None:
        raise RuntimeError("no snapshot")

    for each in CHECKS:
        health.add(each, broken)
    status, checks = ready(health)
    assert (status, set(checks.values())) == (503, {"cannot be told: no snapshot"})


def test_checks_have_known_names() -> None:
    with pytest.raises(ValueError, match="zookeper"):
        Health().add("zookeper", lambda: None)


def test_it_lives_whatever_the_checks_say() -> None:
    assert asyncio.run(Health().live(ASKED)).status == 200


def test_background_threads_that_keep_failing_or_are_dead_are_named() -> None:
    workers = Workers()
    check = workers_check(workers)

    def fail() -> None:
        raise ValueError("planted")

    worker = Worker("loop", fail, ManualClock(), workers=workers)
    for _ in range(2):
        worker.turn()
    assert check() is None
    worker.turn()
    assert check() == "loop has failed 3 times in a row: planted"
    worker.stop()
    assert check() is None


@pytest.mark.parametrize(("policy", "problem"), [(OnError.GO_ON, "loop is dead"), (OnError.END, None)])
def test_a_dead_background_thread_is_a_problem_unless_it_may_end(policy: OnError, problem: str | None) -> None:
    workers = Workers()

    def end() -> None:
        raise SystemExit

    worker = Worker("loop", end, ManualClock(), on_error=policy, workers=workers)
    worker.start()
    assert worker.join()
    assert worker.is_dead
    assert workers_check(workers)() == problem


def test_metadata_is_known_when_the_controller_has_told_of_this_broker() -> None:
    cache = MetadataCache(1)
    check = metadata_check(cache)
    cache.begin_with(LiveBroker(1, {"PLAINTEXT": ("127.0.0.1", 9092)}, None))
    assert check() == "nothing heard from the controller yet"
    told = UpdateMetadataRequest(controller_id=0, live_brokers=[UpdateMetadataBroker(id=0, endpoints=[])])
    cache.update(told, 8)
    assert check() == "this broker is not among the live ones"
    told.live_brokers.append(UpdateMetadataBroker(id=1, endpoints=[]))
    cache.update(told, 8)
    assert check() is None
