from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log.records.buffers import underlying


@given(st.binary(min_size=1, max_size=300), st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_view_of_a_view_is_found_in_the_bytes_under_it(data: bytes, start: int, end: int, again: int) -> None:
    base = bytearray(data)
    view = memoryview(base)[start:end][again:]
    found, at = underlying(view)
    assert found[at : at + len(view)] == view  # type: ignore[comparison-overlap]
    if view:
        assert found is base


def test_whatever_is_no_bytearray_is_copied() -> None:
    base = bytearray(b"abcdef")
    assert underlying(base) == (base, 0)
    assert underlying(memoryview(b"abc")) == (b"abc", 0)
    assert underlying(memoryview(base)[::2]) == (b"ace", 0)
