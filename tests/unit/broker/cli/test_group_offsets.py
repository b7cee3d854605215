"""What `odradek groups reset-offsets` takes as a target."""

import pytest

from broker.cli.errors import CommandError
from broker.cli.group_offsets import Target, parse_target


@pytest.mark.parametrize(
    ("choice", "target"),
    [
        ({"to_earliest": True}, Target("to_earliest")),
        ({"to_offset": 0}, Target("to_offset", 0)),
        ({"shift_by": -2}, Target("shift_by", -2)),
        ({"to_datetime": "2026-01-31T12:00:00"}, Target("to_datetime", 1_769_860_800_000)),
        ({"to_datetime": "2026-01-31T12:00:00.250+01:00"}, Target("to_datetime", 1_769_857_200_250)),
        ({"by_duration": "PT10S"}, Target("by_duration", 90_000)),
        ({"by_duration": "P0DT0H1M30.5S"}, Target("by_duration", 9_500)),
    ],
)
def test_targets(choice: dict[str, object], target: Target) -> None:
    options = {"to_earliest": False, "to_offset": None, "shift_by": None, "to_datetime": None, "by_duration": None}
    assert parse_target({**options, **choice}, lambda: 100_000) == target


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"to_earliest": True, "to_latest": True},
        {"to_datetime": "yesterday"},
        {"by_duration": "10s"},
        {"by_duration": "P"},
        {"by_duration": "PT"},
    ],
)
def test_targets_that_are_refused(choice: dict[str, object]) -> None:
    with pytest.raises(CommandError) as error:
        parse_target(choice, lambda: 0)
    assert error.value.exit_code == 2
