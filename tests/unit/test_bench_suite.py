"""The page of all benchmarks: what stands at its top, what counts as changed, and how each part is read."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import beside, clusters, group_load, linkedin, replicas, scaling, suite, suite_parts, targets
from benchmarks.charts import bar_chart, ratio_chart, replace_section
from benchmarks.suite_markdown import markdown
from benchmarks.suite_page import page
from benchmarks.suite_results import Machine, Results, Row, changes, shortcomings
from broker.config.honoured import warnings

FAST = Row("produce", "MB/s", {"odradek": 80.0, "kafka": 100.0}, more_is_better=True)
SLOW = Row("start", "s", {"odradek": 3.0, "kafka": 1.0}, spread={"odradek": (2.5, 3.5)})
GOOD = Row("memory", "MB", {"odradek": 50.0, "kafka": 500.0})
OWN = Row("one <request>", "bytecodes", {"odradek": 3000.0})


def results(*rows: Row, time: str = "2026-01-01T000000Z", quick: bool = False) -> Results:
    return Results(time, quick, Machine(2, "Linux", "3.11", 1.5), {"part": list(rows)}, {}, {"part": 61})


def test_what_falls_short_stands_first_and_the_worst_before_the_rest() -> None:
    run = results(FAST, GOOD, SLOW, OWN)
    assert [row for _, row in shortcomings(run)] == [SLOW, FAST]
    text = page(run, None)
    assert text.index("Short of Kafka") < text.index("start, s: 3.00 of Kafka") < text.index("produce, MB/s: 0.80 of")
    assert "memory, MB: 0.10 of" not in text
    assert "one &lt;request&gt;" in text
    assert "2.50 to 3.50" in text


@pytest.mark.parametrize(("rows", "says"), [((GOOD,), "Nothing."), ((OWN,), "Kafka was not measured.")])
def test_a_page_says_when_nothing_does(rows: tuple[Row, ...], says: str) -> None:
    assert says in page(results(*rows), None)


def test_runs_are_compared_by_ratio_where_there_is_one() -> None:
    busier = Row("produce", "MB/s", {"odradek": 40.0, "kafka": 50.0}, more_is_better=True)
    worse = Row("start", "s", {"odradek": 9.0, "kafka": 2.0})
    longer = Row("one <request>", "bytecodes", {"odradek": 3600.0})
    new = Row("new", "s", {"odradek": 1.0, "kafka": 1.0})
    found = list(changes(results(busier, worse, longer, new), results(FAST, SLOW, OWN)))
    assert [(row, was, now) for _, row, was, now in found] == [(worse, 3.0, 4.5), (longer, 3000.0, 3600.0)]


def test_a_run_is_what_was_stored(tmp_path: Path) -> None:
    run = results(FAST, OWN)
    path = tmp_path / f"result-{run.time}.json"
    path.write_text(run.to_json())
    (tmp_path / "result-2026-02-01T000000Z.json").write_text(results(FAST, quick=True).to_json())
    newest = results(FAST, time="2026-03-01T000000Z")
    assert suite.last_stored(tmp_path, newest) == run
    assert suite.last_stored(tmp_path, run) is None
    assert suite.last_stored(tmp_path / "none", newest) is None


def test_a_stored_run_is_shown_and_parts_of_it_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = results(FAST)
    run.failures.update({"one request": "no broker", "part: kafka: x": "too slow", "one request: kafka: x": "no"})
    stored = tmp_path / "stored.json"
    stored.write_text(run.to_json())
    command = ["suite", "--stored", str(stored), "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        suite.main()
    assert "Failed: no broker" in (tmp_path / "index.html").read_text()
    monkeypatch.setattr(suite, "run_part", lambda part, quick: ([OWN], {}))
    monkeypatch.setattr(sys, "argv", [*command, "--parts", "one request"])
    with pytest.raises(SystemExit):
        suite.main()
    again = Results.of_json((tmp_path / f"result-{run.time}.json").read_text())
    assert again.parts == {"part": [FAST], "one request": [OWN]}
    assert again.failures == {"part: kafka: x": "too slow"}
    stored.write_text((tmp_path / f"result-{run.time}.json").read_text())
    monkeypatch.setattr(sys, "argv", [*command, "--parts", "groups"])
    with pytest.raises(SystemExit):
        suite.main()
    again = Results.of_json((tmp_path / f"result-{run.time}.json").read_text())
    assert list(again.parts) == ["part", "groups", "one request"]


def test_a_part_that_fails_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = suite_parts.Part("good", "good", (), (), suite_parts.of_request_path)
    bad = suite_parts.Part("bad", "bad", (), (), suite_parts.of_request_path)

    def run_part(part: suite_parts.Part, quick: bool) -> tuple[list[Row], dict[str, str]]:
        if part is bad:
            raise RuntimeError("no <broker>")
        rows = part.read({"produce": {"us": 50.0, "bytecodes": 3000.0}})
        return list(rows), {"kafka: fetch": "too slow"}

    monkeypatch.setattr(suite, "run_part", run_part)
    monkeypatch.setattr(suite, "PARTS", (bad, good))
    monkeypatch.setattr(sys, "argv", ["suite", "--quick", "--directory", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        suite.main()
    assert ended.value.code == 1
    text = (tmp_path / "index.html").read_text()
    assert "Failed: no &lt;broker&gt;" in text
    assert "<td>3,000<td>" in text
    (stored,) = tmp_path.glob("result-*.json")
    assert json.loads(stored.read_text())["failures"] == {"bad": "no <broker>", "good: kafka: fetch": "too slow"}
    assert "bad failed" in capsys.readouterr().err
    text = (tmp_path / "results.md").read_text()
    assert "Failed: bad: no <broker>" in text
    assert "| produce | bytecodes | 3,000 |" in text


def test_what_the_parts_print_is_read() -> None:
    rows = list(
        suite_parts.of_data_path(
            {
                "targets": {
                    name: {"start_s": 1.0, "idle_mb": 2.0, "busy_mb": 3.0} for name in ("sink", "odradek", "kafka")
                },
                "workloads": {
                    "consume": {
                        "unit": "MB/s",
                        "cpu_unit": "s/GB",
                        **{
                            name: {"rate": 5.0, "least": 4.0, "greatest": 6.0, "cpu": 1.0}
                            for name in ("sink", "odradek", "kafka")
                        },
                    }
                },
            }
        )
    )
    assert [(row.name, row.more_is_better) for row in rows[:2]] == [("consume", True), ("consume, CPU", False)]
    assert [set(row.values) for row in rows[1:3]] == [{"sink", "odradek", "kafka"}, {"odradek", "kafka"}]
    each = {"median": 2.0, "least": 1.0, "greatest": 3.0}
    (row,) = suite_parts.of_rounds({"workloads": {"latency": {"ms, p99": {"odradek": each, "kafka": each}}}})
    assert (row.of_kafka, row.is_short, row.spread["odradek"]) == (1.0, False, (1.0, 3.0))
    held = {"500": {"resident_bytes": 6000.0, "descriptors": 3.0}}
    rows = list(suite_parts.of_idle_partitions({"brokers": {"odradek": held}, "objects": {"a": 1.0, "b": 2.0}}))
    assert [row.values["odradek"] for row in rows] == [6000.0, 3.0, 3.0]


def test_bars_end_on_the_side_of_what_they_are() -> None:
    chart = ratio_chart({"less": 0.5, "more": 2.0, "none": 0.0})
    assert chart.count("<rect") == 2
    assert 'x="360.0"' in chart
    assert 'x="520.0"' in chart
    assert ratio_chart({}) == ""


def test_linkedins_figures_stand_beside_ours_in_their_table() -> None:
    each = {"median": 500_000.0, "least": 1.0, "greatest": 3.0}
    both = {"odradek": each, "kafka": each}
    found = {"workloads": {"single producer, 3x sync": {"records/s": both, "CPU s/GB": both}}}
    rows = list(suite_parts.of_replicas(found))
    assert [row.values.get(linkedin.NAME) for row in rows] == [421_823, None]
    assert [row.more_is_better for row in rows] == [True, False]
    text = markdown(results(*rows))
    assert "|  | unit | Odradek | Kafka | LinkedIn 2014 | of Kafka's |" in text
    assert "| single producer, 3x sync | records/s | 500,000 (1.00 to 3.00) |" in text
    assert "| single producer, 3x sync | 500,000 (47.7) | 500,000 (47.7) | 421,823 (40.2) |" in text
    assert "<td>single producer, 3x sync<td>500,000 (47.7)" in page(results(*rows), None)
    assert "LinkedIn" not in page(results(FAST), None)


def test_brokers_of_one_machine_are_rows_by_their_number() -> None:
    works = {work: {"rate": 80.0, "cpu": 2.0, "cores": 1.0} for work in scaling.WORKS}
    found = {f"{kind} x {count}": works for kind in ("odradek", "kafka") for count in (4, 1)}
    rows = list(suite_parts.of_scaling(found))
    assert [row.name for row in rows[:2]] == ["produce, 1 broker", "produce, 4 brokers"]
    assert all(row.of_kafka == 1.0 for row in rows)
    assert len(rows) == 4 * len(scaling.WORKS)


def test_markdown_begins_with_what_falls_short() -> None:
    text = markdown(results(FAST, GOOD, SLOW))
    assert text.index("Short of Kafka in 2 of 3") < text.index("start, s: 3.00") < text.index("| produce |")
    assert "| start | s | 3.00 (2.50 to 3.50) | 1.00 | 3.00 |" in text


def test_no_heading_of_the_tables_is_one_of_the_document(tmp_path: Path) -> None:
    """Links to that would lead to the tables."""
    document = tmp_path / "performance.md"
    document.write_text(suite.DOCUMENT.read_text())
    run = results()
    run.parts.update({part.name: [FAST] for part in suite_parts.PARTS})
    replace_section(document, suite.HEADING, markdown(run))
    headings = [line.strip("# ").lower() for line in document.read_text().splitlines() if re.match("#+ ", line)]
    assert len(set(headings)) == len(headings) > len(suite_parts.PARTS)


def test_what_may_be_chance_is_said_to_be() -> None:
    spread = {"odradek": (70.0, 95.0), "kafka": (90.0, 110.0)}
    near = Row("produce", "MB/s", FAST.values, more_is_better=True, spread=spread)
    assert (near.may_be_chance, FAST.may_be_chance, SLOW.may_be_chance) == (True, False, False)
    apart = Row("produce", "MB/s", FAST.values, spread={**spread, "odradek": (70.0, 85.0)})
    assert not apart.may_be_chance
    for text in (markdown(results(near)), page(results(near), None)):
        assert "0.80 of Kafka's, within the spread" in text


def test_bars_of_rates_are_as_long_as_they_are() -> None:
    chart = bar_chart({"produce": {"odradek": 40.0, "kafka": 80.0}}, "MB/s")
    assert 'width="160.0"' in chart
    assert 'width="320.0"' in chart
    assert bar_chart({"produce": {"odradek": 0.0}}, "MB/s") == ""


def test_the_full_form_fits_into_its_time() -> None:
    assert sum(part.seconds for part in suite_parts.PARTS) < 40 * 60
    assert all(part.limit_s > 2 * part.seconds for part in suite_parts.PARTS)


class Parsed(Exception):
    """The command line was accepted."""


@pytest.mark.parametrize("part", suite_parts.PARTS, ids=lambda part: part.name)
def test_every_part_is_a_command_that_takes_its_arguments(
    part: suite_parts.Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *_: object) -> None:
        for arguments in (part.arguments, part.quick or ()):
            parse(parser, ["--json", *arguments])
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    with pytest.raises(Parsed):
        importlib.import_module(part.module).main()


def test_clusters_compare_with_kafka_as_its_own_script_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "libraries", lambda: tmp_path)
    monkeypatch.setattr(targets, "find_java", lambda: "java")
    made = clusters.comparable_cluster(["odradek", "kafka"], tmp_path, "")
    command = made.brokers[1].kafka_command(tmp_path / "server.properties")
    assert {"-Xms1G", "-Xmx1G", "-XX:+UseG1GC", f"{tmp_path}/*"} < set(command)
    assert not any("TieredStopAtLevel" in each for each in command)


@pytest.mark.parametrize(
    "settings", [targets.BROKER_SETTINGS, beside.SETTINGS, group_load.DELAY, replicas.SETTINGS], ids=str
)
def test_brokers_heed_all_that_benchmarks_set(settings: dict[str, str]) -> None:
    assert list(warnings(settings)) == []
