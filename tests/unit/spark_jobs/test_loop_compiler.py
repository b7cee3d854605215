"""The compiler of loops: what it compiles does what Python does, from any path and without a cache."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.compiled import compiled
from spark_jobs.encode.records import hash_keys
from spark_jobs.loop_compiler import NotCompilableError, assembly
from spark_jobs.package import build_zip

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
SEVEN = 7

small = st.integers(-(2**31), 2**31 - 1)


@compiled
def both(a: int, b: int) -> tuple[int, int]:
    """More than one result, constants of the module, divisions that round down."""
    return (a + b) * SEVEN - (a // 4), (a ^ b) & 0xFFFF | (b >> 3)


@compiled
def choose(a: int, b: int) -> int:
    """Conditions of every kind."""
    found = a > b or (a == b and not b < 0)
    if found and a != 5:
        return 1 if b >= 0 else 2
    return 3 if a <= 5 else -a


@compiled
def steps(limit: int, first: int) -> int:
    """Loops that go on, break off and change their variable."""
    total = 0
    for i in range(first, limit):
        if i & 1:
            i += 100
            continue
        if total > 5000:
            break
        total += i
    while total > 3:
        total -= 2
        if total == 11:
            return total
    return total


@compiled
def squares(table: Int64s, line: Int64s) -> None:
    """One dimension and two."""
    for i in range(line.shape[0]):
        for j in range(table.shape[0]):
            table[j, 1] = table[j, 1] + line[i] * table[j, 0]


@compiled
def moved(data: Any, out: Any, at: int, length: int) -> int:
    """A range of bytes, and one byte."""
    out[at : at + length] = data[1 : 1 + length]
    out[at] = data[0] + 300
    return out[at + 1]  # type: ignore[no-any-return]


@compiled
def narrowed(line: Int64s, out: Int32s) -> int:
    """Arrays of 32 bits."""
    for i in range(line.shape[0]):
        out[i] = line[i]
    return out[1]  # type: ignore[no-any-return]


@given(small, small)
def test_numbers_and_conditions_are_pythons(a: int, b: int) -> None:
    for function in (both, choose):
        plain: Any = inspect.unwrap(function)
        assert function(a, b) == plain(a, b)


@given(st.integers(-5, 400), st.integers(-5, 5))
def test_loops_are_pythons(limit: int, first: int) -> None:
    assert steps(limit, first) == inspect.unwrap(steps)(limit, first)


def test_numbers_wrap_at_64_bits() -> None:
    exact = inspect.unwrap(both)(2**62, 2**62 + 5)
    assert both(2**62, 2**62 + 5) == tuple((each + 2**63) % 2**64 - 2**63 for each in exact)


def test_arrays_are_read_and_written_in_place() -> None:
    table = np.array([[1, 0], [2, 0], [-3, 0]])
    squares(table, np.array([1, 2, 3, 4]))
    assert table.tolist() == [[1, 10], [2, 20], [-3, -30]]
    out = np.zeros(6, np.uint8)
    assert moved(np.arange(10, 16, dtype=np.uint8), out, 2, 3) == 12
    assert out.tolist() == [0, 0, (10 + 300) & 255, 12, 13, 0]


def test_32_bits_have_a_sign() -> None:
    out = np.zeros(3, np.int32)
    assert narrowed(np.array([1, -5, 2**31 - 1]), out) == -5
    assert out.tolist() == [1, -5, 2**31 - 1]


def test_arrays_of_another_kind_are_refused() -> None:
    line = np.array([1, 2, 3, 4])
    with pytest.raises(TypeError, match="squares takes contiguous arrays of words"):
        squares(np.zeros((3, 4), np.int64)[:, :2], line)
    with pytest.raises(TypeError, match="squares takes contiguous arrays of words"):
        squares(np.zeros((3, 2), np.int32), line)


def divided(a: int, b: int) -> int:
    return a // b


def appended(a: int) -> int:
    found = [a]
    return found[0]


def unknown(a: int) -> int:
    return a + len(str(a))


@pytest.mark.parametrize(("function", "line"), [(divided, 2), (appended, 2), (unknown, 2)])
def test_what_is_not_compiled_is_named(function: Any, line: int) -> None:
    with pytest.raises(NotCompilableError, match=f"{function.__name__}, line {line}: [A-Z][A-Za-z]+ is not compiled"):
        assembly(function)


def test_each_path_of_the_zip_is_compiled_without_a_cache(tmp_path: Path) -> None:
    code = (
        "import numpy as np, sys\n"
        "from spark_jobs import compiled\n"
        "from spark_jobs.decode import walk\n"
        "from spark_jobs.encode.records import hash_keys\n"
        "assert walk.__file__.startswith(sys.path[0]), walk.__file__\n"
        "hashes = np.zeros(1, np.int64)\n"
        "hash_keys(np.frombuffer(b'key', np.uint8), np.array([[0, 3]]), hashes)\n"
        "assert len(walk.scan_batches(walk.as_buffer(bytes(100)), 100)) == 1\n"
        "assert compiled.COMPILED and len(compiled._engines) == 2 and 'numba' not in sys.modules\n"
        "print(int(hashes[0]))\n"
    )
    found = []
    for name in ("first", "second"):
        home = tmp_path / f"{name}-home"
        home.mkdir()
        package = tmp_path / name / "odradek-spark.zip"
        build_zip(package)
        environment = {**os.environ, "PYTHONPATH": str(package), "HOME": str(home), "TMPDIR": str(home)}
        environment.pop("NUMBA_CACHE_DIR", None)
        run = subprocess.run(
            [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n{code}"],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert [path for path in home.rglob("*") if path.is_file()] == []
        found.append(int(run.stdout))
    hashes = np.zeros(1, np.int64)
    hash_keys(np.frombuffer(b"key", np.uint8), np.array([[0, 3]]), hashes)
    assert found == [hashes[0], hashes[0]]
