"""What a task of topic-report makes of its records, against the same sums in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.jobs import summary
from spark_jobs.jobs.summary import Summary, Times, bars_of

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
Record = tuple[bytes | None, bytes | None, int, int]


def records(seed: int, count: int) -> list[Record]:
    """Keys, values, offsets with gaps, and milliseconds that jump back now and then."""
    chance = random.Random(seed)
    offset, found = 40, list[Record]()
    for n in range(count):
        key = None if chance.random() < 0.2 else b"key-%d" % chance.randrange(50)
        value = None if chance.random() < 0.1 else bytes(chance.randrange(300))
        found.append((key, value, offset, 1_700_000_000_000 + n * 1000 - chance.choice([0, 0, 0, 5000])))
        offset += chance.choice([1, 1, 3])
    return found


def batches(found: list[Record], size: int) -> list[pa.RecordBatch]:
    named = [
        {"key": key, "value": value, "offset": offset, "timestamp": millis * 1000}
        for key, value, offset, millis in found
    ]
    return [pa.RecordBatch.from_pylist(named[at : at + size], SCHEMA) for at in range(0, len(named), size)]


def summed(found: list[Record], size: int) -> tuple[dict[str, Any], Counter[bytes]]:
    made = Summary()
    keys: Counter[bytes] = Counter()
    parts = []
    for batch in batches(found, size):
        made.add(batch)
        parts.append(made.keys())
    parts.append(made.keys(at_end=True))
    for part in parts:
        for row in part.to_pylist() if part is not None else ():
            keys[row["key"]] += row["n"]
    return json.loads(made.numbers()), keys


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_numbers_of_a_partition(size: int) -> None:
    found = records(size, 500)
    numbers, keys = summed(found, size)
    sizes = [len(key or b"") + len(value or b"") for key, value, _, _ in found]
    newest, behind = found[0][3], list[int]()
    for *_, millis in found:
        behind.append(max(0, newest - millis))
        newest = max(newest, millis)
    times, powers = numbers.pop("times"), numbers.pop("sizes")
    assert numbers == {
        "records": 500,
        "bytes": sum(sizes),
        "first_offset": found[0][2],
        "last_offset": found[-1][2],
        "without_key": sum(key is None for key, *_ in found),
        "tombstones": sum(value is None for _, value, *_ in found),
        "late": sum(each > 0 for each in behind),
        "latest_by_ms": max(behind),
    }
    assert numbers["late"] > 0
    assert powers == {str(power): n for power, n in Counter(max(1, each).bit_length() - 1 for each in sizes).items()}
    assert times["counts"] == {str(bar): n for bar, n in Counter(r[3] >> times["power"] for r in found).items()}
    assert keys == Counter(key for key, *_ in found if key is not None)


def test_keys_are_handed_on_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_KEYS", 20)
    found = records(3, 400)
    made = Summary()
    handed = list[pa.Table]()
    for batch in batches(found, 10):
        made.add(batch)
        part = made.keys()
        handed += [] if part is None else [part]
    assert len(handed) > 1
    assert all(20 < part.num_rows <= 30 for part in handed)
    assert summed(found, 10)[1] == Counter(key for key, *_ in found if key is not None)


def test_bars_hold_what_lies_between_their_ends() -> None:
    chance = random.Random(4)
    instants = {
        name: [1_700_000_000_000 + chance.randrange(span) for _ in range(500)]
        for name, span in (("hour", 3_600_000), ("month", 2_592_000_000), ("moment", 3))
    }
    times = {}
    for name, all_of in instants.items():
        times[name] = Times()
        for at in range(0, 500, 50):
            part = Times()
            part.add(pa.array(all_of[at : at + 50]).to_numpy())
            times[name].merge(Times.of(json.loads(json.dumps(part.told()))))
    first, width, bars = bars_of(times, 40)
    assert first is not None
    assert first <= min(min(each) for each in instants.values()) < first + width / 40
    for name, all_of in instants.items():
        assert bars[name] == dict(sorted(Counter((each - first) // width for each in all_of).items()))
        assert len(times[name].counts) <= summary.MAX_TIMES
    assert max(max(each) for each in bars.values()) < 40
    assert bars_of({}, 40) == (None, 1, {})
