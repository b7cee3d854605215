"""The only source of chance: random numbers, and the unique ids that are made of them.

Everything else is given a `Chance`. Daemons and commands use `SystemChance`, which nobody can guess; the simulation and
tests hand in a `SeededChance` (any `random.Random` will do), whose draws are the same in every run.
"""

from __future__ import annotations

import random
import uuid
from typing import Protocol


class Chance(Protocol):
    """Where randomness comes from."""

    def random(self) -> float:
        """At least 0.0 and below 1.0."""
        ...

    def randrange(self, start: int, stop: int | None = None, /) -> int:
        """At least `start` and below `stop`; with one argument, at least 0 and below that."""
        ...

    def randbytes(self, n: int, /) -> bytes:
        """`n` bytes."""
        ...


class SystemChance(random.SystemRandom):
    """The operating system's source: good for secrets, has no state, and serves all threads."""


class SeededChance(random.Random):
    """Draws that follow from the seed."""


def random_uuid(chance: Chance) -> uuid.UUID:
    """A version 4 uuid."""
    return uuid.UUID(bytes=chance.randbytes(16), version=4)
