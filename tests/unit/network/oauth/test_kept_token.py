"""When the next token is asked for, and what happens to those who come meanwhile."""

from __future__ import annotations

import threading

import pytest

from network.oauth.access_token import AccessToken, NoTokenNow
from network.oauth.kept_token import RETRY_MS, KeptToken, RefreshRules, refresh_ms
from timer.clock import ManualClock

NOW = 1_700_000_000_000
EXACT = RefreshRules(0.8, 0.0, 60, 300)


@pytest.mark.parametrize(
    ("issued_s", "lifetime_s", "rules", "expected_s"),
    [
        (0, 3600, EXACT, 2880),
        (0, 3600, EXACT._replace(window_factor=1.0), 3300),  # not within the buffer
        (-2800, 3600, EXACT, 80),
        (-2880, 3600, EXACT, 60),  # not at once
        (-3300, 3600, EXACT, 240),  # no room for both: a part of what is left
        (0, 30, EXACT, 24),
        (None, 3600, EXACT, 2880),
        (0, -5, EXACT, RETRY_MS // 1000),
    ],
)
def test_when_the_next_token_is_asked_for(
    issued_s: int | None, lifetime_s: int, rules: RefreshRules, expected_s: int
) -> None:
    issued = None if issued_s is None else NOW + 1000 * issued_s
    token = AccessToken("t", (NOW if issued is None else issued) + 1000 * lifetime_s, issued)
    assert refresh_ms(token, NOW, rules) - NOW == 1000 * expected_s


def test_not_all_clients_ask_at_once() -> None:
    times = {refresh_ms(AccessToken(f"t{n}", NOW + 3_600_000, NOW), NOW, RefreshRules()) - NOW for n in range(50)}
    assert len(times) > 30
    assert 2_880_000 <= min(times) < max(times) <= 3_060_000


class Source:
    """Tokens of a minute, numbered; or a failure."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.count = 0
        self.failure: Exception | None = None

    def fetch(self) -> AccessToken:
        self.count += 1
        if self.failure is not None:
            raise self.failure
        return AccessToken(f"t{self.count}", self.clock.wall_ms() + 60_000, self.clock.wall_ms())


def test_a_token_is_kept_and_renewed_ahead_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    source = Source(clock)
    kept = KeptToken(source.fetch, EXACT, clock)
    assert [kept.current().text, kept.current().text] == ["t1", "t1"]
    clock.advance(48_000)
    assert kept.current().text == "t2"
    clock.advance(50_000)
    source.failure = NoTokenNow("no provider")
    assert kept.current().text == "t2", "it is good for ten seconds more"
    assert kept.current().text == "t2"
    assert source.count == 3, "nor is the provider asked at each login"
    assert "the old one is good for 10 s: no provider" in caplog.text
    clock.advance(10_000)
    with pytest.raises(NoTokenNow):
        kept.current()
    source.failure = None
    assert kept.current().text == "t5"


def test_nobody_waits_for_the_next_token_while_the_old_one_is_good() -> None:
    clock = ManualClock()
    source = Source(clock)
    asking, go_on = threading.Event(), threading.Event()

    def fetch() -> AccessToken:
        if source.count:
            asking.set()
            assert go_on.wait(30)
        return source.fetch()

    kept = KeptToken(fetch, EXACT, clock)
    kept.current()
    clock.advance(48_000)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(kept.current().text))
    thread.start()
    assert asking.wait(30)
    assert kept.current().text == "t1"
    go_on.set()
    thread.join(30)
    assert (found, kept.current().text, source.count) == (["t2"], "t2", 2)


class CountingClock(ManualClock):
    """Knows how often it was asked, and who waits for that."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)

    def wall_ms(self) -> int:
        self.asked.release()
        return super().wall_ms()


def test_one_failure_is_that_of_all_who_waited_for_it() -> None:
    clock = CountingClock()
    source = Source(clock)

    def fetch() -> AccessToken:
        for _ in range(4):  # each thread asks the clock on its way in
            assert clock.asked.acquire(timeout=30)
        return source.fetch()

    source.failure = NoTokenNow("no provider")
    kept = KeptToken(fetch, EXACT, clock)
    told: list[str] = []

    def ask() -> None:
        try:
            kept.current()
        except NoTokenNow as error:
            told.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told == ["no provider"] * 4
    assert source.count == 1
