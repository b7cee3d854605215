"""What `python -m tests.fuzz` does, for a while; the bombs; and clients that are slow or silent in large numbers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from log.records.compression import Codec
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader, encode_request
from tests.fuzz.broker_under_fire import UnderFire, under_fire
from tests.fuzz.crowd import QUESTION, Crowd, allow_descriptors
from tests.fuzz.files import fuzz_files
from tests.fuzz.record_data import bomb
from tests.support import wire
from tests.support.cluster import CLOCK, HOST

FRAMES, FILES, SEED = 20_000, 8_000, 19
LONGEST_MS = 10_000
SETTLE_MS = 60_000
"""Until a busy broker has taken or closed a thousand connections."""
MOST_MB = 150
MANY, MOST_KB_EACH = 1_000, 32


@pytest.fixture(scope="module")
def target(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderFire]:
    with under_fire(tmp_path_factory.mktemp("fire"), f"{zookeeper}/fire") as made:
        yield made


def test_files_are_read_or_refused(tmp_path: Path) -> None:
    faults = fuzz_files(tmp_path / "files", FILES, SEED)
    assert not faults, "\n".join(faults)


def test_frames_end_in_an_answer_or_the_end_of_the_connection(target: UnderFire) -> None:
    """Nothing fails in an undeclared way, a bystander is served, and nothing is left behind."""
    memory, (threads, descriptors) = target.memory_mb(), target.counts()
    attacker, seen = target.attack(FRAMES, SEED)
    assert not attacker.faults, "\n".join(attacker.faults[:5])
    assert not target.tracebacks(), "\n".join(target.tracebacks())
    assert attacker.ends["answered"] > FRAMES // 4
    assert attacker.ends["closed"] > FRAMES // 20
    assert seen.longest < LONGEST_MS, str(seen)
    assert target.memory_mb() - memory < MOST_MB
    more_threads, more_descriptors = target.counts()
    assert more_threads - threads < 20, "threads stay behind"
    assert more_descriptors - descriptors < 200, "descriptors stay behind"


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_in_bounded_memory(target: UnderFire, codec: Codec) -> None:
    memory = target.memory_mb()
    answer = wire.produce(target.broker, "fuzz-a", bomb(codec))
    assert ErrorCode.of(answer.error_code) is not ErrorCode.NONE
    assert target.memory_mb() - memory < 2 * MOST_MB


def test_readers_that_do_not_read_and_writers_that_do_not_end(target: UnderFire) -> None:
    """Three hundred who ask for 100 answers and read none, and as many who send a byte of a frame and nothing more."""
    frame = encode_request(RequestHeader(18, 3, 1, "slow"), wire.ASK_VERSIONS)
    memory, (_, descriptors) = target.memory_mb(), target.counts()
    with target.watched() as seen, contextlib.ExitStack() as opened:
        for number in range(600):
            sock = opened.enter_context(socket.create_connection((HOST, target.broker.port), 30))
            sock.sendall(frame * 100 if number % 2 else b"\0")
        wire.pause(2)
        during = target.memory_mb()
    assert during - memory < MOST_MB
    assert seen.longest < LONGEST_MS, str(seen)
    # A busy broker still takes some of them when they have gone; the next test counts from here.
    assert wait_until(lambda: target.counts()[1] < descriptors + 20, CLOCK, SETTLE_MS), "descriptors stay behind"


def test_a_thousand_connections_that_say_little(target: UnderFire) -> None:
    """What `python -m tests.fuzz.connections` does with ten: silent ones, then a frame of each, a byte at a time."""
    allow_descriptors(MANY)
    memory, (threads, descriptors) = target.memory_mb(), target.counts()
    with target.watched() as seen, Crowd(target.broker.port) as crowd:
        crowd.enter(MANY)
        assert wait_until(lambda: target.counts()[1] >= descriptors + 0.95 * MANY, CLOCK, SETTLE_MS)
        silent = target.memory_mb()
        for at in range(len(QUESTION)):
            crowd.say(QUESTION[at : at + 1])
        assert crowd.heard() == MANY
        assert target.counts()[0] - threads < 20, "a thread for each"
    assert silent - memory < MANY * MOST_KB_EACH / 1024
    assert seen.longest < LONGEST_MS, str(seen)
    assert wait_until(lambda: target.counts()[1] < descriptors + 50, CLOCK, SETTLE_MS), "descriptors stay behind"
