"""Kafka Streams counts words exactly once on Odradek, is killed, and goes on; with the clients of 3.9.1 and of 4.1.0.

About a minute.
"""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.group_harness import wait_for
from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.transactions import read_committed

SOURCE = Path(__file__).with_name("java") / "WordCount.java"
WORDS = ["the", "broker", "that", "keeps", "every", "record", "once", "and", "in", "order"]
LINES = 300


def start(cluster: Cluster, version: str, directory: Path, *names: str) -> subprocess.Popen[bytes]:
    arguments = [str(SOURCE), cluster.bootstrap, *names, str(directory / "state")]
    command = kafka.java_command(kafka.require(version), *arguments)
    with (directory / "streams.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def write(cluster: Cluster, topic: str, lines: range) -> Counter[str]:
    """Lines of three words; how often each word was written."""
    written: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 2})
    for number in lines:
        words = [WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7)]
        written.update(words)
        producer.produce(topic, " ".join(words), partition=number % 2)
    assert producer.flush(60) == 0
    return written


def counts(cluster: Cluster, topic: str) -> dict[str, list[int]]:
    """The counts of each word in the order in which they were written, committed ones only."""
    found: dict[str, list[int]] = {}
    for messages in read_committed(cluster.bootstrap, topic, range(2)).values():
        for message in messages:
            found.setdefault(message.key().decode(), []).append(struct.unpack(">q", message.value())[0])
    return found


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_words_are_counted_once(
    version: str, cluster: Cluster, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = create_topic(2), create_topic(2)
    names = (f"words-{source}", source, target)
    written = write(cluster, source, range(LINES))
    streams = start(cluster, version, tmp_path, *names)
    try:

        def goes_on() -> bool:
            assert streams.poll() is None, (tmp_path / "streams.log").read_text()[-3000:]
            return bool(counts(cluster, target))

        # Some is counted, and the transaction of the next words is probably open.
        wait_for(goes_on, lambda: (tmp_path / "streams.log").read_text()[-3000:])
        streams.kill()
        streams.wait(30)
        written += write(cluster, source, range(LINES, 2 * LINES))
        streams = start(cluster, version, tmp_path, *names)

        def done() -> bool:
            return {word: max(numbers) for word, numbers in counts(cluster, target).items()} == written

        wait_for(done, lambda: f"{counts(cluster, target)} {(tmp_path / 'streams.log').read_text()[-3000:]}")
        # Not one count is missing, and none was written twice.
        assert counts(cluster, target) == {word: list(range(1, total + 1)) for word, total in written.items()}
    finally:
        streams.kill()
        streams.wait(30)
