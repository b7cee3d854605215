"""A small file system for one of the two log directories of each broker, which can be filled."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.cluster import Broker
from tests.support.disks import fill

SIZE = "128m"


class SmallDisks:
    """Mounted in the campaign's own tree of mounts, in which the brokers run."""

    def __init__(self, directory: Path, brokers: int) -> None:
        self.paths = [directory / f"small-{number}" for number in range(brokers)]
        for path in self.paths:
            path.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)], check=True)

    def fill(self, broker: Broker) -> None:
        """No byte is left."""
        fill(self.paths[broker.broker_id])

    def empty(self, broker: Broker) -> None:
        """There is room again."""
        (self.paths[broker.broker_id] / "ballast").unlink()

    def close(self) -> None:
        """No broker runs any more."""
        for path in self.paths:
            subprocess.run(["umount", "-l", str(path)], check=True)
