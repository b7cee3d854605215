"""Wall clocks of brokers that are off by what the campaign says, while monotonic ones stay (`native/wall.c`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.cluster import Broker

SOURCE = Path(__file__).with_name("native") / "wall.c"


def missing() -> str:
    """Why clocks can't jump here; empty if they can."""
    return "" if shutil.which("cc") else "no C compiler (cc)"


class WallClocks:
    """Of brokers that are not started yet."""

    def __init__(self, directory: Path, brokers: list[Broker]) -> None:
        library = directory / "wall.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True, timeout=120)
        self._files = {broker.broker_id: directory / f"wall-{broker.broker_id}" for broker in brokers}
        for broker in brokers:
            self.set(broker, 0)
            broker.environment |= {"LD_PRELOAD": str(library), "WALL_OFFSET": str(self._files[broker.broker_id])}

    def set(self, broker: Broker, seconds: float) -> None:
        """So far from the machine's clock, at once. The file stays the same one: it is mapped."""
        with self._files[broker.broker_id].open("r+b" if self._files[broker.broker_id].exists() else "wb") as file:
            file.write(int(seconds * 1_000_000_000).to_bytes(8, "little", signed=True))
