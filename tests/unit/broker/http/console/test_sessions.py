"""Sessions end, are few, and cannot be guessed."""

from __future__ import annotations

from typing import Any

from broker.http.console import sessions as module
from broker.http.console.sessions import Failures, Sessions, cookie_of, set_cookie
from timer.chance import SystemChance
from timer.clock import ManualClock


def client(name: str) -> Any:
    """Sessions only carry it."""
    return name


class TestSessions:
    def setup_method(self) -> None:
        self.clock = ManualClock()
        self.closed: list[Any] = []
        self.sessions = Sessions(self.clock, SystemChance(), self.closed.append)

    def test_a_session_is_found_by_its_id_alone(self) -> None:
        mine, yours = self.sessions.open("me", client("1")), self.sessions.open("you", client("2"))
        assert mine != yours
        found = self.sessions.find(mine)
        assert found is not None
        assert (found.user, str(found.client)) == ("me", "1")
        assert found.token not in (mine, yours)
        for wrong in ("", mine[:-1], mine + "A", mine.swapcase(), "é"):
            assert self.sessions.find(wrong) is None

    def test_ids_have_256_bits(self) -> None:
        assert len(self.sessions.random_text()) == 43
        assert len({self.sessions.random_text() for _ in range(1000)}) == 1000

    def test_one_that_is_not_used_ends(self) -> None:
        session = self.sessions.open("me", client("1"))
        self.clock.advance(module.IDLE_MS)
        assert self.sessions.find(session) is not None
        self.clock.advance(module.IDLE_MS + 1)
        assert self.sessions.find(session) is None
        assert self.closed == ["1"]

    def test_one_that_is_used_ends_too_when_its_day_is_over(self) -> None:
        session = self.sessions.open("me", client("1"))
        for _ in range(module.LIFE_MS // module.IDLE_MS):
            self.clock.advance(module.IDLE_MS)
            assert self.sessions.find(session) is not None
        self.clock.advance(1)
        assert self.sessions.find(session) is None
        assert len(self.sessions) == 0

    def test_they_are_few_and_the_one_not_used_for_longest_goes(self) -> None:
        first = self.sessions.open("0", client("0"))
        others = [self.sessions.open(str(n), client(str(n))) for n in range(1, module.MAX_SESSIONS)]
        assert self.sessions.find(first) is not None
        self.sessions.open("more", client("more"))
        assert len(self.sessions) == module.MAX_SESSIONS
        assert self.closed == ["1"]
        assert self.sessions.find(others[0]) is None
        assert self.sessions.find(first) is not None

    def test_a_logout_ends_it(self) -> None:
        session = self.sessions.open("me", client("1"))
        self.sessions.end(session)
        self.sessions.end(session)
        assert self.sessions.find(session) is None
        assert self.closed == ["1"]

    def test_all_end_with_the_broker(self) -> None:
        for n in range(3):
            self.sessions.open("me", client(str(n)))
        self.sessions.close()
        assert sorted(map(str, self.closed)) == ["0", "1", "2"]


class TestFailures:
    def test_so_many_in_a_minute_from_one_address(self) -> None:
        clock = ManualClock()
        failures = Failures(clock)
        for _ in range(module.MAX_FAILURES):
            assert not failures.too_many("10.0.0.1")
            failures.note("10.0.0.1")
        assert failures.too_many("10.0.0.1")
        assert not failures.too_many("10.0.0.2")
        clock.advance(module.FAILURE_WINDOW_MS + 1)
        assert not failures.too_many("10.0.0.1")


def test_a_cookie_is_for_the_console_and_for_no_script() -> None:
    made = set_cookie("c", "id")
    assert made == "c=id; Path=/console; HttpOnly; SameSite=Strict"
    assert set_cookie("c", "").endswith("; Max-Age=0")
    assert cookie_of("a=b; c=id; d=e", "c") == "id"
    assert cookie_of("xc=no", "c") == ""
    assert cookie_of("", "c") == ""
