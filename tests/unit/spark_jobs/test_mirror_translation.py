"""Translated offsets against a model that knows where each record went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.mirror.translation import MAX_STRETCHES, Stretch, extended, from_json, to_json, translated


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(9, None), (10, 0), (15, 5), (19, 9), (20, 12), (29, 12), (30, 20), (99, 20)],
)
def test_one_to_one_where_that_is_sure(offset: int, expected: int | None) -> None:
    table = [Stretch(10, 20, 0, 10, True), Stretch(20, 30, 12, 20, False)]
    assert translated(table, offset) == expected
    assert from_json(to_json(table)) == table


def test_stretches_that_follow_each_other_are_one() -> None:
    table = extended([Stretch(0, 10, 5, 15, True)], Stretch(10, 20, 15, 25, True))
    assert table == [Stretch(0, 20, 5, 25, True)]
    assert extended(table, Stretch(20, 30, 26, 36, True))[-1] == Stretch(20, 30, 26, 36, True)


def test_the_table_is_bounded() -> None:
    table: list[Stretch] = []
    for n in range(MAX_STRETCHES + 5):
        table = extended(table, Stretch(n, n + 1, 2 * n, 2 * n + 1, True))
    assert (len(table), table[0].start) == (MAX_STRETCHES, 5)


@given(
    st.lists(
        st.tuples(
            st.lists(st.booleans(), min_size=1, max_size=6),  # offsets of a batch: is there a record?
            st.integers(0, 2),  # records of somebody else in the target before it
            st.booleans(),  # the job dies after writing it, and writes it again
        ),
        max_size=8,
    )
)
def test_no_record_is_missed(batches: list[tuple[list[bool], int, bool]]) -> None:
    """A group that goes on in the target reads every record that it had not read, at least in the newest copy."""
    table: list[Stretch] = []
    newest: dict[int, int] = {}  # source offset of each record to its newest place in the target
    source = target = 0
    for there, others, again in batches:
        target += others
        for _ in range(1 + again):
            begin, at = target, source
            for is_record in there:
                if is_record:
                    newest[at] = target
                    target += 1
                at += 1
        table = extended(table, Stretch(source, at, begin, target, all(there)))
        source = at
    for offset in range(source + 1):
        found = translated(table, offset)
        assert found is not None or not table
        for record, place in newest.items():
            if found is not None and record >= offset:
                assert place >= found
