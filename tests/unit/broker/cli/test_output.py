"""What `--output` makes of rows, lines and documents, and the YAML that is written."""

from __future__ import annotations

import json
import math
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from broker.cli import output
from broker.cli.errors import CommandError
from broker.cli.yaml_text import to_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_yaml_is_read_as_it_was_meant(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@pytest.mark.parametrize(
    "word", ["no", "True", "~", "null", "1e3", "0x1f", "2026-01-31", "a: b", "- a", "#", "", "1_000"]
)
def test_texts_that_look_like_something_else_stay_texts(word: str) -> None:
    assert yaml.safe_load(to_yaml({word: word})) == {word: word}


def test_nan() -> None:
    assert math.isnan(yaml.safe_load(to_yaml(math.nan)))


@click.group()
def commands() -> None:
    pass


@commands.command()
@output.output_option
def table() -> None:
    output.rows(["BROKER-ID", "LogDir", "#N", "RACK (ID)"], [[1, "a", 2, None]])


@commands.command()
@output.output_option
@click.option("--fail", is_flag=True)
@click.option("--times", default=2)
def lines(fail: bool, times: int) -> None:
    for number in range(times):
        output.say(f"did {number}", number=number)
    if fail:
        raise CommandError("no more")


@commands.command()
@output.output_option
def none() -> None:
    output.rows(["A"], [])


@commands.command()
@output.output_option
def one() -> None:
    output.document({"a": [1]}, lambda: click.echo("one"))
    output.note("a note")
    output.line("a line")


@commands.command()
@output.output_option
def many() -> None:
    output.item("first", {"n": 1})
    output.item("second", {"n": 2})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def test_rows() -> None:
    assert run("table").output == "BROKER-ID  LogDir  #N  RACK (ID)\n1          a       2   -\n"
    expected = [{"broker_id": 1, "log_dir": "a", "n": 2, "rack_id": None}]
    assert json.loads(run("table", "--json").output) == expected
    assert json.loads(run("table", "--output", "json").output) == expected
    assert yaml.safe_load(run("table", "--output", "yaml").output) == expected


def test_lines_become_one_list() -> None:
    assert run("lines").output == "did 0\ndid 1\n"
    assert json.loads(run("lines", "--json").output) == [{"number": 0}, {"number": 1}]
    assert json.loads(run("lines", "--json", "--times", "0").output) == []
    assert json.loads(run("none", "--json").output) == []


def test_a_command_that_fails_says_what_it_did_before() -> None:
    failed = run("lines", "--json", "--fail")
    assert isinstance(failed.exception, CommandError)
    assert json.loads(failed.stdout) == [{"number": 0}, {"number": 1}]
    assert run("lines", "--json", "--fail", "--times", "0").stdout == ""


def test_a_document_and_what_is_for_people_only() -> None:
    assert run("one").stdout == "one\na line\n"
    assert run("one").stderr == "a note\n"
    assert run("one", "--json").output == '{\n  "a": [\n    1\n  ]\n}\n'


def test_items_are_written_one_by_one() -> None:
    assert run("many", "--json").output == '{"n": 1}\n{"n": 2}\n'
    assert list(yaml.safe_load_all(run("many", "--output", "yaml").output)) == [{"n": 1}, {"n": 2}]
