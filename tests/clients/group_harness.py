"""Groups of member processes, and what they have told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka import Producer

from tests.support.cluster import ROOT, Cluster, python_environment
from tests.support.suspend import suspend

Name = tuple[str, int]
TIMEOUT_S = 120.0  # what a step may take on a busy machine; a quiet one needs seconds


class Refusal(NamedTuple):
    """Between an assignment and its first record a member was refused what it needs to begin in the right place.

    `since`: when the assignment came. `error`: that of an OffsetFetch as a whole, or OFFSET_OUT_OF_RANGE of a Fetch.
    """

    since: int
    topic: str
    partition: int
    error: int


def wait_for(condition: Callable[[], Any], what: str | Callable[[], str], timeout_s: float = TIMEOUT_S) -> Any:
    """The first true value of `condition`; fails with `what` when the time is over."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not in {timeout_s} s: {what() if callable(what) else what}"
        time.sleep(0.05)
    return value


def produce(cluster: Cluster, topic: str, count: int, partitions: int) -> list[str]:
    """Send so many values, spread over the partitions; returns them."""
    prefix = uuid.uuid4().hex[:8]
    values = [f"{prefix}-{number}" for number in range(count)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def names(topic: str, count: int) -> set[Name]:
    """All partitions of a topic."""
    return {(topic, number) for number in range(count)}


def group_name() -> str:
    """Of a group that no other test has."""
    return f"group-{uuid.uuid4().hex[:8]}"


class MemberProcess:
    """One member; its events are read as they come."""

    def __init__(self, library: str, bootstrap: str, group: str, *topics: str, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.clients.group_member", "--library", library]
        command += ["--bootstrap", bootstrap, "--group", group]
        for topic in topics:
            command += ["--topic", topic]
        for key, value in options.items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        self._start(f"{library}-{options.get('instance_id', '')}", command)

    def _start(self, name: str, command: list[str]) -> None:
        """A program that tells its events as lines of JSON."""
        self.name = name
        self.owned: set[Name] = set()
        self.assignments = 0
        self.revoked: list[Name] = []
        self.records: list[tuple[str, int, int, str]] = []
        self.commits: list[tuple[int, str, int, int]] = []
        """When it was answered (nanoseconds), topic, partition and offset."""
        self.starts: list[tuple[int, str, int, int]] = []
        """The first record of each assignment: when the assignment came, topic, partition and offset."""
        self.refusals: set[Refusal] = set()
        """Of aiokafka's members alone, which don't ask again."""
        self._fresh: dict[Name, int] = {}
        self.closed = False
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **python_environment()},
            text=True,
        )
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        """One event."""
        if "records" in event:
            for topic, number, offset, _ in event["records"]:
                if (since := self._fresh.pop((topic, number), None)) is not None:
                    self.starts.append((since, topic, number, offset))
            self.records += [(t, p, o, v) for t, p, o, v in event["records"]]
        elif "refused" in event:
            for topic, number in event["refused"]:
                if (assigned_at := self._fresh.get((topic, number))) is not None:
                    self.refusals.add(Refusal(assigned_at, topic, number, event["error"]))
        elif "committed" in event:
            self.commits += [(event["at"], t, p, o) for t, p, o in event["committed"]]
        elif "assigned" in event:
            self.owned = {(topic, number) for topic, number in event["assigned"]}
            self._fresh = {place: since for place, since in self._fresh.items() if place in self.owned}
            self._fresh |= dict.fromkeys(map(tuple, event["added"]), event["at"])
            self.assignments += 1
        elif "revoked" in event:
            gone = [(topic, number) for topic, number in event["revoked"]]
            self.owned -= set(gone)
            self.revoked += gone
        elif "closed" in event:
            self.closed = True
        elif "error" in event:
            self.errors = [*self.errors[-30:], event["error"]]

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors = [*self.errors[-30:], line.rstrip()]

    def leave(self) -> None:
        """Leave the group and end."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join(5)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def pause(self) -> None:
        suspend(self.process.pid)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def __repr__(self) -> str:
        ended = self.process.poll()
        state = f"owns {sorted(self.owned)}" if ended is None else f"ended with {ended}"
        return f"{self.name}: {state}, {len(self.records)} records, {self.errors[-3 if ended is None else -30 :]}"


class Members:
    """The members of a test; all end with it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.all: list[MemberProcess] = []

    def add(self, library: str, group: str, *topics: str, **options: Any) -> MemberProcess:
        member = MemberProcess(library, self.bootstrap, group, *topics, **options)
        self.all.append(member)
        return member

    def restart(self, cluster: Cluster) -> None:
        """Stop the only broker in good order and start it again, with the members at work.

        Not so beside Apache Kafka: while it stops (4.1.0, fenced by its controller) or starts (3.9.1), it answers
        Metadata without any broker. librdkafka 2.16 then drops the addresses it was given too, and never connects
        again; so members stand still meanwhile.
        """
        (broker,) = cluster.brokers
        asleep = [] if broker.kind == "odradek" else [each for each in self.all if each.process.poll() is None]
        for member in asleep:
            member.pause()
        broker.stop()
        broker.start()
        cluster.wait_ready()
        for member in asleep:
            member.resume()

    def wait_balanced(self, members: Iterable[MemberProcess], partitions: set[Name], spread: int = 1) -> None:
        """Until the partitions are shared out exactly once, and no member has more than `spread` above another."""
        members = list(members)

        def balanced() -> bool:
            owned = [set(member.owned) for member in members]
            sizes = [len(each) for each in owned]
            union = set().union(*owned)
            return union == partitions and sum(sizes) == len(partitions) and max(sizes) - min(sizes) <= spread

        wait_for(balanced, lambda: f"an even assignment of {len(partitions)} partitions: {members}")

    def wait_values(self, values: Iterable[str]) -> None:
        """Until every value has been read by somebody."""
        wanted = set(values)

        def missing() -> set[str]:
            return wanted - {record[3] for member in self.all for record in member.records}

        wait_for(lambda: not missing(), lambda: f"{len(missing())} values are missing: {self.all}")

    def counts(self, values: Iterable[str]) -> Counter[str]:
        """How often each value was read, over all members."""
        wanted = set(values)
        return Counter(record[3] for member in self.all for record in member.records if record[3] in wanted)

    def stop(self) -> None:
        for member in self.all:
            if member.process.poll() is None:
                member.resume()
                member.process.terminate()
        for member in self.all:
            try:
                member.process.wait(10)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait(10)
