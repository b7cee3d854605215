"""One cluster for several processes, such as pytest-xdist's workers: the first starts it, the last ends it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from odradek.cluster import Cluster
from odradek.errors import ClusterError
from odradek.supervisor import Address, Connection

_MAX_BYTES = 65_536


class SharedCluster(Cluster):
    """A cluster that everybody has who asks with the same ``directory`` and ``name``; `stop` lets go of it."""

    def __init__(
        self,
        directory: Path,
        name: str,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        zookeeper: str = "embedded",
        data_dir: str | os.PathLike[str] | None = None,
        log_level: str = "INFO",
        security: str = "PLAINTEXT",
    ) -> None:
        super().__init__(
            brokers, config, zookeeper=zookeeper, data_dir=data_dir, log_level=log_level, security=security
        )
        self._note = directory / f"{name}.json"
        self.was_running = False

    def start(self, timeout: float | None = None) -> Cluster:
        """Join the cluster, or start it; all brokers serve when this returns."""
        with self._alone():
            self.was_running = self._join()
            if not self.was_running:
                super().start(timeout)
                assert self._process is not None
                with open(self._note, "w", opener=_private) as file:
                    json.dump(asdict(self._process.address), file)
                self._process.leave()
                self._process = None
        return self

    def stop(self) -> None:
        """Let go of it; if nobody else holds it, nothing is left when this returns."""
        if self._process is not None:
            super().stop()  # it did not start
        elif self._connection is not None:
            with self._alone():
                self._connection.leave()
                self._connection = None

    def _join(self) -> bool:
        try:
            with self._note.open() as file:
                address = Address(**json.loads(file.read(_MAX_BYTES)))
            connection = Connection(address)
        except (OSError, ValueError, TypeError, ClusterError):
            return False
        try:
            self._description = connection.ask("describe")
        except ClusterError:
            connection.close()
            return False
        self._connection = connection
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._note.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _private(path: str, flags: int) -> int:
    """The note holds a token: it is its writer's alone."""
    return os.open(path, flags, 0o600)
