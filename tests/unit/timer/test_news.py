from __future__ import annotations

from timer.clock import ManualClock
from timer.news import News, of_error


def test_the_same_is_told_once_until_a_long_while_has_passed() -> None:
    clock = ManualClock()
    news = News(clock, again_ms=1_000)
    assert [news.is_new("topic", "too few brokers") for _ in range(3)] == [True, False, False]
    clock.advance(999)
    assert not news.is_new("topic", "too few brokers")
    clock.advance(1)
    assert [news.is_new("topic", "too few brokers") for _ in range(2)] == [True, False]


def test_another_reason_or_subject_is_told_at_once() -> None:
    news = News(ManualClock())
    assert news.is_new("a", "one")
    assert news.is_new("a", "two")
    assert news.is_new("a", "one")
    assert news.is_new("b", "one")


def test_what_was_well_in_between_is_told_again() -> None:
    news = News(ManualClock())
    assert not news.is_over("a")
    assert news.is_new("a")
    assert news.is_over("a")
    assert not news.is_over("a")
    assert news.is_new("a")


def test_what_is_remembered_is_bounded() -> None:
    news = News(ManualClock(), limit=2)
    assert [news.is_new(subject) for subject in "abc"] == [True, True, True]
    assert not news.is_new("c")
    assert not news.is_new("b")
    assert news.is_new("a")  # the oldest was forgotten


def test_errors_of_one_type_and_text_are_the_same() -> None:
    assert of_error(OSError("gone")) == of_error(OSError("gone"))
    assert of_error(OSError("gone")) != of_error(ValueError("gone"))
