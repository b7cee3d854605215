"""What `java/Workload.java` does with the Java client, and what it has told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from broker.dev.polling import wait_until
from tests.campaign.checker import Outcome
from tests.clients.group_harness import TIMEOUT_S, MemberProcess
from tests.reference import kafka
from tests.support.cluster import CLOCK

SOURCE = Path(__file__).with_name("java") / "Workload.java"


def missing() -> str:
    """Why there is no Java client here; empty if there is one."""
    try:
        kafka.libraries()
    except kafka.ReferenceUnavailableError as error:
        return str(error)
    return ""


class JavaClient(MemberProcess):
    """A producer, a bank and a member of a group in one process."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, bank: str, group: str, topics: list[str], interval_s: float
    ) -> None:
        self.topic = topic
        self.acknowledged: dict[int, list[tuple[int | None, bytes]]] = {number: [] for number in range(partitions)}
        self.sent = 0
        self.given_up: Counter[str] = Counter()
        self.transfers: dict[int, Outcome] = {}
        self._finished = False
        arguments = [bootstrap, topic, str(partitions), bank, group, ",".join(topics), str(int(interval_s * 1000))]
        self._start("java", kafka.java_command(kafka.require(), str(SOURCE), *arguments, heap="256m", tool=True))

    def _take(self, event: dict[str, Any]) -> None:
        if "acked" in event:
            partition, offset, number = event["acked"]
            self.acknowledged[partition].append((offset if offset >= 0 else None, b"%d" % number))
        elif "transfer" in event:
            number, outcome = event["transfer"]
            self.transfers[number] = outcome
        elif "failed" in event:
            self.given_up[event["failed"]] += 1
        elif "sent" in event:
            self.sent = event["sent"]
        elif "finished" in event:
            self._finished = True
        else:
            super()._take(event)

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def wait_progress(self, records: int) -> None:
        """Until so many are acknowledged in every partition, and the group's member has something."""
        assert wait_until(lambda: all(len(done) >= records for done in self.acknowledged.values()), CLOCK, 120_000), (
            self.errors
        )

    def finish(self) -> None:
        """Write no more; what was sent is acknowledged, or given up."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert wait_until(lambda: self._finished, CLOCK, 450_000), f"the Java client does not end: {self.errors}"

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join(5)
