"""Each page of docs/operations is walked through, on a cluster that is well before it and after it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.operations.machine import PAGES, Line, Machine, lines_of
from tests.support.commands import eventually

# In the order of the guide.
GUIDE = re.findall(r"\]\(([a-z-]+\.md)\)", (PAGES / "README.md").read_text())
SPARK = "backup-and-restore.md"
RECORDS = 50
EXTRA = {"lost-zookeeper.md": 1}  # records that a page writes itself


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("operations"))
    try:
        made.start()
        # No page changes a group's topic, but each of them has to move and recover one.
        made.run(Line("odradek topics create orders --replica-assignment 0:1:2,1:2:0", (0,)))
        made.run(Line("odradek topics create others --partitions 4", (0,)))
        yield made
    finally:
        made.stop()


def count(machine: Machine, topic: str = "orders") -> int:
    """Records of a topic; asked again while leaders change, as after an election of the page before."""
    found: list[int] = []

    def told() -> bool:
        said = machine.run(Line(f"odradek get-offsets --topic {topic} --json", (0, 1)))
        try:
            found[:] = [int(row["offset"]) for row in json.loads(said)]
        except (TypeError, ValueError):
            return False
        return True

    eventually(told)
    return sum(found)


def test_every_page_is_in_the_guide() -> None:
    assert sorted(GUIDE) == sorted(path.name for path in PAGES.glob("*.md") if path.name != "README.md")
    assert all(lines_of(page) for page in GUIDE)


@pytest.mark.parametrize("page", GUIDE)
def test_page(machine: Machine, page: str) -> None:
    if page == SPARK:
        pytest.importorskip("pyspark")
    before = count(machine)
    machine.run(Line(f"seq {RECORDS} | odradek produce orders", (0,)))
    said = [machine.run(line) for line in lines_of(page)]
    assert count(machine) == before + RECORDS + EXTRA.get(page, 0), "\n".join(said)
    machine.run(Line("odradek cluster health --wait-ms 60000 --skew-warning 100", (0,)))
    if page == SPARK:
        assert count(machine, "orders-again") == count(machine)
