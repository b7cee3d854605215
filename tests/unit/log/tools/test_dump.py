from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from log.errors import CorruptIndexError
from log.tools.dump import DumpOptions, dump_file, format_item
from tests.unit.log.golden import FULL, SMALL, dumps


def _dump(path: Path, options: DumpOptions) -> str:
    lines = [f"Dumping {path.name}"]
    lines += [format_item(item).replace(f"{path.parent}/", "") for item in dump_file(path, options)]
    return "\n".join(lines)


def _comparable(text: str) -> str:
    # Java prints one replacement character where Python may print several; gaps come in another order.
    text = re.sub(r"(?m)[ ]+$", "", re.sub("\ufffd+", "\ufffd", text)).rstrip("\n")
    lines = text.split("\n")
    gaps = sorted(line for line in lines if " is followed by " in line)
    return "\n".join([line for line in lines if line not in gaps] + gaps)


def test_dumps_equal_those_of_kafka() -> None:
    compared = 0
    for directory, arguments, expected in dumps():
        *flags, name = arguments.split()
        path = directory / name
        if not path.exists() or any("decoder" in flag for flag in flags):
            continue
        options = DumpOptions(
            deep="--deep-iteration" in flags,
            print_data="--print-data-log" in flags,
            index_sanity_check="--index-sanity-check" in flags,
        )
        if "Corrupt time index" in expected:
            with pytest.raises(CorruptIndexError):
                _dump(path, options)
        else:
            assert _comparable(_dump(path, options)) == _comparable(expected), path
        compared += 1
    assert compared > 30


def test_items_are_json() -> None:
    for path in sorted(SMALL.glob("*/data/**/*")):
        if path.is_file():
            for item in dump_file(path, DumpOptions(deep=True, print_data=True)):
                assert json.loads(json.dumps(item.fields)) is not None
                assert item.kind != "problem"


def test_index_that_disagrees_with_its_log(tmp_path: Path) -> None:
    golden = SMALL / "1_clean" / "data" / "golden-0"
    for path in golden.glob("*79.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    index = tmp_path / "00000000000000000079.index"
    data = bytearray(index.read_bytes())
    data[3] += 1
    index.write_bytes(data)
    problems = [item for item in dump_file(index, DumpOptions(verify_index_only=True)) if item.kind == "problem"]
    assert len(problems) == 1
    time_index = tmp_path / "00000000000000000079.timeindex"
    data = bytearray(time_index.read_bytes())
    data[7] += 1
    time_index.write_bytes(data)
    assert any(item.kind == "problem" for item in dump_file(time_index, DumpOptions()))
    time_index.write_bytes(data[:-1])
    with pytest.raises(CorruptIndexError):
        list(dump_file(time_index, DumpOptions(index_sanity_check=True)))


def test_torn_log(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000079.log"
    data = (SMALL / "1_clean/data/golden-0" / path.name).read_bytes()
    path.write_bytes(data[:-57])
    problems = [item.fields["text"] for item in dump_file(path, DumpOptions()) if item.kind == "problem"]
    assert problems == [f"Found {775 - 57} invalid bytes at the end of {path.name}"]


@pytest.mark.parametrize("name", ["x.log", "readme.txt"])
def test_unknown_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError):
        list(dump_file(tmp_path / name, DumpOptions()))


def test_the_complete_captures_are_used_when_they_are_there() -> None:
    assert not FULL.is_dir() or sum(1 for _ in dumps()) > 500
