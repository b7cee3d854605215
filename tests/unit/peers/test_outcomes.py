"""What other projects' suites write is read as they mean it, and a difference is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.comparison import Peer, report
from tests.peers.librdkafka import of_runner
from tests.peers.outcomes import Outcomes, of_go, of_junit, of_lines


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "output"
    path.write_text(text)
    return path


def test_what_go_says(tmp_path: Path) -> None:
    lines = [
        "# what the compiler says",
        '{"Action":"run","Package":"x/kgo","Test":"TestA"}',
        '{"Action":"output","Package":"x/kgo","Test":"TestA","Output":"fail"}',
        '{"Action":"pass","Package":"x/kgo","Test":"TestA"}',
        '{"Action":"run","Package":"x/kgo","Test":"TestB/sub"}',
        '{"Action":"skip","Package":"x/kgo","Test":"TestC"}',
        '{"Action":"fail","Package":"x/kgo"}',
        '{"Action":"ru',
    ]
    found = of_go(written(tmp_path, "\n".join(lines)))
    assert found == {"kgo.TestA": "passed", "kgo.TestB/sub": "unfinished", "kgo.TestC": "skipped"}


def test_what_pytest_and_jest_say(tmp_path: Path) -> None:
    cases = '<testcase classname="c" name="a"/><testcase classname="c" name="b"><failure/></testcase>'
    cases += (
        '<testcase classname="c" name="d"><skipped/></testcase><testcase classname="c" name="e"><error/></testcase>'
    )
    found = of_junit(written(tmp_path, f"<testsuites><testsuite>{cases}</testsuite></testsuites>"))
    assert found == {"c.a": "passed", "c.b": "failed", "c.d": "skipped", "c.e": "failed"}
    assert of_junit(tmp_path / "absent") == {}


def test_what_the_runner_of_librdkafka_says(tmp_path: Path) -> None:
    lines = [
        "[<MAIN> / 0.1s] ================= Running test 0001_multiobj =================",
        "[<MAIN> / 0.1s] ================= Running test 0002_unkpart =================",
        "[0001 / 1s] \x1b[32m================= Test 0001_multiobj PASSED =================\x1b[0m",
        "[0003 / 1s] ================= Test 0003_msgmaxsize SKIPPED =================",
        "[<MAIN> / 0.1s] ================= Running test 0004_conf =================",
        '\x1b[31m### Test "0004_conf" failed at test.c:1:why() at Sun Nov 29 21:06:44 2026: ###',
        "[<MAIN> / 0.1s] ================= Running test 0005_order =================",
        "=== Process of 0005 is over ===",
    ]
    found = of_runner(written(tmp_path, "\n".join(lines)))
    assert found == {
        "0001_multiobj": "passed",
        "0002_unkpart": "unfinished",
        "0003_msgmaxsize": "skipped",
        "0004_conf": "failed",
        "0005_order": "failed",
    }


def test_what_our_reporters_say(tmp_path: Path) -> None:
    lines = ['["a", "passed"]', '["a", "failed"]', '["b", "pending"]', '["c", "failed"]', '["c", "passed"]']
    found = of_lines(written(tmp_path, "\n".join(lines)))
    assert found == {"a": "failed", "b": "skipped", "c": "failed"}
    assert of_lines(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("ours", "real", "is_wrong"),
    [
        ("passed", "passed", False),
        ("failed", "passed", True),
        ("unfinished", "passed", True),
        ("skipped", "passed", True),
        ("absent", "passed", True),
        ("failed", "failed", False),
        ("passed", "failed", False),
        ("skipped", "skipped", False),
    ],
)
def test_what_passes_on_kafka_has_to_pass(ours: str, real: str, is_wrong: bool) -> None:
    peer = Peer("name", "name", "1", Path, lambda run: {})
    outcomes: dict[str, Outcomes] = {"odradek": {"other": "passed"}, "kafka": {"other": "passed", "test": real}}
    if ours != "absent":
        outcomes["odradek"]["test"] = ours
    assert report(peer, outcomes, {"odradek": 1, "kafka": 1}) is is_wrong


def test_what_is_explained_may_differ(capsys: pytest.CaptureFixture[str]) -> None:
    peer = Peer("name", "name", "1", Path, lambda run: {}, explained={"test": "as it is"})
    outcomes: dict[str, Outcomes] = {"odradek": {"test": "failed"}, "kafka": {"test": "passed"}}
    assert not report(peer, outcomes, {"odradek": 1, "kafka": 1})
    assert "test: failed on odradek, passed on kafka (as it is)" in capsys.readouterr().out


def test_a_suite_that_told_nothing_is_a_failure() -> None:
    peer = Peer("name", "name", "1", Path, lambda run: {})
    assert report(peer, {"odradek": {}, "kafka": {"test": "failed"}}, {"odradek": 1, "kafka": 1})
