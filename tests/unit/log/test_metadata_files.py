from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import InconsistentMetadataError
from log.files.meta_properties import (
    MetaProperties,
    check_meta_properties,
    ensure_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from log.files.partition_metadata import PartitionMetadataFile
from log.files.properties_text import format_properties, parse_properties
from tests.unit.log.golden import SMALL


def test_golden_files() -> None:
    data = SMALL / "1_clean" / "data"
    assert read_meta_properties(data) == MetaProperties("eLxjGYYXSX-NHslegFWJYg", 0)
    topic_id = PartitionMetadataFile(data / "golden-0").read()
    assert topic_id is not None
    assert base64.urlsafe_b64encode(topic_id) == b"WAHFEYccRU2wPgEYTRGu2Q=="


def test_partition_metadata_bytes(tmp_path: Path) -> None:
    golden = SMALL / "1_clean" / "data" / "golden-0"
    file = PartitionMetadataFile(tmp_path)
    assert file.read() is None
    topic_id = PartitionMetadataFile(golden).read()
    assert topic_id is not None
    file.write(topic_id)
    assert file.path.read_bytes() == (golden / "partition.metadata").read_bytes()
    assert file.read() == topic_id
    for bad in (bytes(16), b"short"):
        with pytest.raises(ValueError):
            file.write(bad)
    file.delete()
    file.delete()
    assert file.read() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: -1\ntopic_id: WAHFEYccRU2wPgEYTRGu2Q",
        "version: x\ntopic_id: WAHFEYccRU2wPgEYTRGu2Q",
        "topic_id: WAHFEYccRU2wPgEYTRGu2Q\nversion: 0",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: short",
        "version:0\ntopic_id: WAHFEYccRU2wPgEYTRGu2Q",
    ],
)
def test_bad_partition_metadata(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(InconsistentMetadataError):
        PartitionMetadataFile(tmp_path).read()


def test_meta_properties_round_trip(tmp_path: Path) -> None:
    assert read_meta_properties(tmp_path) is None
    properties = MetaProperties("cluster:1", 5, "dir")
    assert write_meta_properties(tmp_path, properties, 1_700_000_000_000)
    assert not write_meta_properties(tmp_path, properties)
    assert read_meta_properties(tmp_path) == properties
    assert (tmp_path / "meta.properties").read_text().startswith("#\n#Tue Nov 14 22:13:20 UTC 2023\n")


def test_missing_version_is_zero(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("broker.id = 3\n")
    assert read_meta_properties(tmp_path) == MetaProperties(None, 3)
    assert ensure_meta_properties(tmp_path, 3, "c") == MetaProperties("c", 3)
    assert read_meta_properties(tmp_path) == MetaProperties("c", 3)


@pytest.mark.parametrize("text", ["version=1\nnode.id=1\n", "version=x\n", "broker.id=x\n", "broker.id=-2\n"])
def test_bad_meta_properties(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(InconsistentMetadataError):
        read_meta_properties(tmp_path)


def test_directories_must_fit() -> None:
    a, b = MetaProperties("c", 1, "x"), MetaProperties("c", 1, "y")
    assert check_meta_properties({"a": a, "b": b, "n": None}, "c", 1) == 1
    assert check_meta_properties({"a": a}, "c", -1) == 1
    assert check_meta_properties({"a": None}, "c", 7) is None
    for found, cluster, broker in (
        ({"a": a}, "d", 1),
        ({"a": a}, "c", 2),
        ({"a": a, "b": MetaProperties("c", 2)}, "c", -1),
        ({"a": a, "b": a}, "c", 1),
    ):
        with pytest.raises(InconsistentMetadataError):
            check_meta_properties(found, cluster, broker)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4))
def test_properties_round_trip(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values).encode("latin-1").decode("latin-1")) == values


def test_properties_file() -> None:
    text = "# comment\n! too\nbroker.id=1\n  listeners : PLAINTEXT\\://x:1,\\\n    SSL://y:2\nempty\nkey\\ a value b\n"
    text += "u=\\u0041\n"
    assert parse_properties(text) == {
        "broker.id": "1",
        "listeners": "PLAINTEXT://x:1,SSL://y:2",
        "empty": "",
        "key a": "value b",
        "u": "A",
    }


def test_properties_syntax() -> None:
    text = "! comment\n a : b \\\n   c\nkey\nd\\=e=f\\u0041\n\n#x\nlast=1\\"
    assert parse_properties(text) == {"a": "b c", "key": "", "d=e": "fA", "last": "1"}


def test_only_line_ends_of_java_end_lines() -> None:
    assert parse_properties("a=1\x0b2\u20283\x1c4\rb=5\r\nc=6") == {"a": "1\x0b2\u20283\x1c4", "b": "5", "c": "6"}
    assert parse_properties("a=\\ud83d\\ude00") == {"a": "\U0001f600"}
