"""One broker with everything on, under frames, and what may not happen to it meanwhile."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from broker.dev.polling import wait_until
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.fuzz.attacker import Attacker
from tests.fuzz.values import NAMES
from tests.support import wire
from tests.support.bystander import Seen, resident_mb, watching
from tests.support.cluster import CLOCK
from tests.support.guarded import ADMIN, OPEN, SECURE, Guarded, running_guarded

BYSTANDER = "bystanders"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.message.timestamp.type": "CreateTime",
    # What a group or a transaction may keep for long is bounded by the operator, and here he bounds it.
    "group.max.session.timeout.ms": "10000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "socket.listen.backlog.size": "1000",
    "log.cleaner.backoff.ms": "1000",
    "connection.failed.authentication.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}


@contextlib.contextmanager
def under_fire(directory: Path, zookeeper: str) -> Iterator[UnderFire]:
    """Started, with the topics that frames name, and stopped at the end."""
    with running_guarded(["odradek"], directory, zookeeper, **SETTINGS) as guarded:
        wire.create_topic(guarded.cluster, BYSTANDER)
        for name in NAMES:
            policy = {"cleanup.policy": "compact"} if "compacted" in name else {}
            wire.create_topic(guarded.cluster, name, partitions=2, configs=policy)
        yield UnderFire(guarded)


class UnderFire:
    """The broker, and figures of its process."""

    def __init__(self, guarded: Guarded) -> None:
        self.guarded = guarded
        self.broker = guarded.broker

    def attack(self, frames: int, seed: int, *, harmless: bool = False) -> tuple[Attacker, Seen]:
        """Send so many frames while a bystander is served; he fails here if he is not."""
        attacker = Attacker(self.guarded.ports[0], seed, harmless=harmless)
        with self.watched() as seen:
            attacker.run(frames)
        return attacker, seen

    def watched(self) -> contextlib.AbstractContextManager[Seen]:
        return watching(self.guarded.ports[0][SECURE], self.guarded.properties("PLAIN", ADMIN), BYSTANDER)

    @property
    def open_port(self) -> int:
        return self.guarded.ports[0][OPEN]

    def memory_mb(self) -> float:
        return resident_mb(self.broker)

    def counts(self) -> tuple[int, int]:
        """Threads and file descriptors."""
        assert self.broker.process is not None
        process = Path(f"/proc/{self.broker.process.pid}")
        return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

    def replicas(self) -> int:
        """Partitions in its log directory: those of topics that frames have made are among them."""
        return sum(1 for path in self.broker.data.iterdir() if path.is_dir())

    def forget_made(self) -> int:
        """Delete the topics that frames have made, and wait until their files are gone; returns what is left."""
        with self.guarded.cluster.client() as client:
            made = [name for name in client.metadata().topics if name not in (BYSTANDER, *NAMES) and name[0] != "_"]
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in made], timeout_ms=30_000)
            client.call_controller(deletion)
        wait_until(lambda: not list(self.broker.data.glob("*-delete")), CLOCK, 30_000)
        wire.pause(2)
        return self.replicas()

    def tracebacks(self) -> list[str]:
        """The distinct failures in its log: the line that tells of each and the last two of its traceback."""
        found: dict[str, str] = {}
        lines = self.broker.log_file.read_text(errors="replace").splitlines()
        for at, line in enumerate(lines):
            if line.startswith("Traceback"):
                end = at + 1
                while end < len(lines) and lines[end].startswith((" ", "\t")):
                    end += 1
                shown = [lines[at - 1][:300], *lines[max(at + 1, end - 2) : end + 1]]
                found.setdefault(re.sub(r"\d+", "#", lines[max(at, end - 2)]), "\n".join(shown))
        return list(found.values())
