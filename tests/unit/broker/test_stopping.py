"""In which order the parts of a broker stop."""

from __future__ import annotations

import logging

import pytest

from broker.stopping import Started


def _named(*names: str) -> tuple[Started, list[str]]:
    stopped: list[str] = []
    started = Started()
    for name in names:
        started.add(name, lambda name=name: stopped.append(name))  # type: ignore[misc]
    return started, stopped


def test_the_last_part_stops_first_and_each_once() -> None:
    started, stopped = _named("logs", "replicas", "sockets")
    started.stop_all()
    started.stop_all()
    assert stopped == ["sockets", "replicas", "logs"]


def test_a_part_that_stops_as_if_it_had_started_earlier() -> None:
    started, stopped = _named("session", "logs")
    started.add("controller", lambda: stopped.append("controller"), after="session")
    with pytest.raises(ValueError, match="nothing"):
        started.add("controller", lambda: None, after="nothing")
    started.stop_all()
    assert stopped == ["logs", "controller", "session"]


def test_what_fails_keeps_nothing_from_stopping(caplog: pytest.LogCaptureFixture) -> None:
    started, stopped = _named("session")
    started.add("logs", lambda: 1 / 0)
    with caplog.at_level(logging.ERROR):
        started.stop_all()
    assert stopped == ["session"]
    assert "stopping the logs failed" in caplog.text
