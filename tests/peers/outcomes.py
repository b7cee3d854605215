"""How the tests of a suite ended, out of what the suite wrote."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

Outcomes = dict[str, str]
"""Name of a test → passed, failed, skipped, or unfinished where time was over."""

_GO = {"run": "unfinished", "pass": "passed", "fail": "failed", "skip": "skipped"}
_JUNIT = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def of_go(output: Path) -> Outcomes:
    """Of `go test -json`; subtests count by themselves."""
    found = {}
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            # What a compiler says stands between the events, and the last one may be cut.
            continue
        if "Test" in event and event["Action"] in _GO:
            found[f"{event['Package'].rpartition('/')[2]}.{event['Test']}"] = _GO[event["Action"]]
    return found


def of_junit(report: Path) -> Outcomes:
    """Of a report as pytest and jest-junit write it."""
    found: Outcomes = {}
    if not report.exists():
        return found
    for case in ET.parse(report).getroot().iter("testcase"):
        ended = {_JUNIT[child.tag] for child in case if child.tag in _JUNIT}
        found[f"{case.get('classname')}.{case.get('name')}"] = min(ended, default="passed")
    return found


def of_lines(report: Path) -> Outcomes:
    """Of a list in JSON a line, as our own reporters write it while a suite runs: test, how it ended.

    A test that fails once has failed; what else a reporter calls its end is a skip.
    """
    found: Outcomes = {}
    for line in report.read_text().splitlines() if report.exists() else ():
        test, ended = json.loads(line)
        if found.get(test) != "failed":
            found[test] = ended if ended in ("passed", "failed") else "skipped"
    return found
