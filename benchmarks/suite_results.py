"""What `benchmarks.suite` found, as data: rows by part, what falls short of Kafka, and what has changed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

CHANGED = 0.1
"""A ratio that moved by more is named."""


@dataclass(frozen=True)
class Row:
    """One figure: a value for each target, with the least and the greatest of the rounds where these are known."""

    name: str
    unit: str
    values: dict[str, float]
    more_is_better: bool = False
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def of_kafka(self) -> float | None:
        """How many times Kafka's this is; None if one of them is missing or nothing."""
        ours, theirs = self.values.get("odradek"), self.values.get("kafka")
        return ours / theirs if ours is not None and theirs else None

    @property
    def is_short(self) -> bool:
        """Whether Kafka does better."""
        ratio = self.of_kafka
        return ratio is not None and (ratio < 1 if self.more_is_better else ratio > 1)

    @property
    def may_be_chance(self) -> bool:
        """Whether rounds of the one reach into those of the other."""
        ours, theirs = self.spread.get("odradek"), self.spread.get("kafka")
        return ours is not None and theirs is not None and ours[0] <= theirs[1] and theirs[0] <= ours[1]

    @property
    def beside_kafka(self) -> str:
        """In words: the ratio, and whether it says something."""
        chance = ", within the spread" if self.may_be_chance else ""
        return f"{self.name}, {self.unit}: {self.of_kafka:.2f} of Kafka's{chance}"


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    cores: int
    system: str
    python: str
    load: float
    """One minute's load average before the first part."""

    @classmethod
    def here(cls) -> Machine:
        return cls(os.cpu_count() or 0, platform.platform(), platform.python_version(), round(os.getloadavg()[0], 1))


@dataclass(frozen=True)
class Results:
    """One run."""

    time: str
    quick: bool
    machine: Machine
    parts: dict[str, list[Row]]
    failures: dict[str, str]
    seconds: dict[str, int] = field(default_factory=dict)
    """How long each part took."""

    @classmethod
    def new(cls, quick: bool) -> Results:
        """Of now and here, without any part."""
        return cls(datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ"), quick, Machine.here(), {}, {})

    def forget(self, part: str) -> None:
        """What is known of it, because it is run again."""
        self.parts.pop(part, None)
        for name in [name for name in self.failures if name == part or name.startswith(f"{part}: ")]:
            del self.failures[name]

    def put_in_order(self, names: Sequence[str]) -> None:
        """In the order of `names`, whichever was run last; what has none of these names comes first."""
        places = {name: place for place, name in enumerate(names)}
        ordered = sorted(self.parts.items(), key=lambda item: places.get(item[0], -1))
        self.parts.clear()
        self.parts.update(ordered)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> Results:
        """Raises ValueError, KeyError or TypeError for what is no result."""
        found = json.loads(text)
        parts = {name: [Row(**row) for row in rows] for name, rows in found["parts"].items()}
        machine, seconds = Machine(**found["machine"]), found.get("seconds", {})
        return cls(found["time"], found["quick"], machine, parts, found["failures"], seconds)


def shortcomings(results: Results) -> list[tuple[str, Row]]:
    """With their parts, those that are worst first."""

    def severity(item: tuple[str, Row]) -> float:
        ratio = item[1].of_kafka or 1.0
        return 1 / ratio if item[1].more_is_better and ratio else ratio

    found = [(part, row) for part, rows in results.parts.items() for row in rows if row.is_short]
    return sorted(found, key=severity, reverse=True)


def changes(results: Results, before: Results) -> Iterator[tuple[str, Row, float, float]]:
    """What moved since: part, row, and both ratios to Kafka (or both values of what Kafka does not have)."""
    known = {(part, row.name, row.unit): row for part, rows in before.parts.items() for row in rows}
    for part, rows in results.parts.items():
        for row in rows:
            old = known.get((part, row.name, row.unit))
            if old is None:
                continue
            was, now = old.of_kafka, row.of_kafka
            if was is None or now is None:
                was, now = old.values.get("odradek"), row.values.get("odradek")
            if was and now and abs(now / was - 1) > CHANGED:
                yield part, row, was, now
