"""The cleaner's table of keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.cleaner.offset_map import OffsetMap


@given(st.lists(st.binary(max_size=3), max_size=60))
def test_offset_map_is_a_map(keys: list[bytes]) -> None:
    offsets, model = OffsetMap(24 * 61), {}
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
        model[key] = offset
    assert offsets.size == len(model)
    for key in [*keys, b"absent"]:
        assert offsets.get(key) == model.get(key, -1)


def test_few_keys_take_little_of_the_memory_that_a_map_may_have() -> None:
    def resident_kb() -> int:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    before = resident_kb()
    offsets = OffsetMap(128 << 20)
    for number in range(100):
        offsets.put(b"%d" % number, number)
    # Nor do keys that are only looked for, of which a log may have very many.
    for number in range(20_000):
        assert offsets.get(b"absent %d" % number) == -1
    assert resident_kb() - before < 16 << 10


def test_a_full_map_refuses() -> None:
    offsets = OffsetMap(24 * 3)
    for offset in range(3):
        offsets.put(bytes([offset]), offset)
    with pytest.raises(ValueError):
        offsets.put(b"more", 3)
    assert offsets.get(b"more") == -1
    with pytest.raises(ValueError):
        OffsetMap(23)
