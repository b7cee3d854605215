"""What `python -m tests.campaign` does, for a short while."""

from __future__ import annotations

from pathlib import Path

from tests.campaign.run import run


def test_nothing_is_lost_doubled_or_reordered(tmp_path: Path) -> None:
    result = run(tmp_path, 4, 12, ["odradek", "odradek", "odradek"])
    print(f"\n{result}")
    assert not result.problems, "\n".join(result.problems[:20])
    assert result.acknowledged > 1_000
    assert sum(result.faults.values()) > 0
