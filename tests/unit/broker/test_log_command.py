from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.cli.errors import CommandError
from broker.cli.log import command
from broker.cli.log_decoders import offsets_decoder, transaction_log_decoder
from log.records.record import Record
from log.tools.dump import DumpOptions, RecordDecoder, dump_file, format_item
from tests.support.paths import GOLDEN, shared_golden

PARTITION = GOLDEN / "log" / "1_clean" / "data" / "golden-0"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_dump_prints_what_kafka_prints() -> None:
    path = PARTITION / "00000000000000000000.log"
    result = _run("dump", "--print-data-log", str(path))
    assert result.exit_code == 0
    expected = (GOLDEN / "log" / "1_clean" / "dump" / "golden-0.txt").read_text().split("\n\n# ")[0]
    lines = [line.rstrip() for line in expected.splitlines()[2:]]
    assert [line.rstrip() for line in result.stdout.splitlines()[1:]] == lines


def test_dump_as_json() -> None:
    files = [str(path) for path in sorted(PARTITION.iterdir())]
    result = _run("dump", "--json", "--print-data-log", *files)
    assert result.exit_code == 0
    items = [json.loads(line) for line in result.stdout.splitlines()]
    assert {item["kind"] for item in items} >= {
        "batch",
        "record",
        "offset_entry",
        "time_entry",
        "aborted_txn",
        "producer",
    }
    first = next(item for item in items if item["kind"] == "record")
    assert first["key"] == "key-0"
    assert first["headers"][0]["key"] == "content-type"


def test_dump_of_damage_fails(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000079.log"
    path.write_bytes((PARTITION / path.name).read_bytes()[:-1])
    result = _run("dump", str(path))
    assert result.exit_code == 1
    assert "invalid bytes at the end" in result.stdout
    other = tmp_path / "leader-epoch-checkpoint"
    other.write_text("9\n0\n")
    result = _run("dump", str(other))
    assert result.exit_code == 1
    assert "line 1" in result.stderr


def test_verify(tmp_path: Path) -> None:
    target = tmp_path / "golden-0"
    shutil.copytree(PARTITION, target)
    result = _run("verify", str(tmp_path))
    assert result.exit_code == 0
    assert "1 partitions, 3 segments" in result.stdout
    path = target / "00000000000000000079.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    result = _run("verify", str(target))
    assert result.exit_code == 1
    assert "wrong checksum" in result.stdout
    result = _run("verify", "--json", "--quiet", str(target))
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["severity"] == "error"
    assert lines[-1]["errors"] == 1


def test_verify_of_a_directory_that_is_none(tmp_path: Path) -> None:
    wrong = _run("verify", str(tmp_path)).exception
    assert isinstance(wrong, CommandError)
    assert str(wrong) == f"{tmp_path} is no log directory and no partition directory"
    assert wrong.exit_code == 2
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=5\n")
    result = _run("verify", str(tmp_path))
    assert result.exit_code == 0
    assert "0 partitions" in result.stdout


@pytest.mark.parametrize(
    ("flag", "decoder"),
    [("--offsets-decoder", offsets_decoder), ("--transaction-log-decoder", transaction_log_decoder)],
)
def test_decoders_print_what_kafka_prints(flag: str, decoder: RecordDecoder) -> None:
    compared = 0
    for text in sorted((shared_golden() / "log").glob("*/dump/__*.txt")):
        for block in re.split(r"(?m)^# ", text.read_text())[1:]:
            head, _, expected = block.partition("\n")
            if flag not in head:
                continue
            path = text.parent.parent / "data" / text.stem / head.split(" -> ")[0].split()[-1]
            items = dump_file(path, DumpOptions(deep=True, print_data=True, decoder=decoder))
            ours = [format_item(item).rstrip() for item in items if item.kind in ("batch", "record")]
            lines = [line.rstrip() for line in expected.splitlines() if line.startswith(("baseOffset", "|"))]
            assert ours == lines
            compared += len(ours)
    assert compared > 50


@pytest.mark.parametrize("decoder", [offsets_decoder, transaction_log_decoder])
def test_decoders_survive_anything(decoder: RecordDecoder) -> None:
    for key in (None, b"", b"\x00", b"\x00\x00", b"\x00\x01\x00\x05ab", b"\x00\x09", b"\xff\xff\x00"):
        for value in (None, b"", b"\x00\x03\x01"):
            assert decoder(Record(0, 0, key, value))[0] is not None
