"""What clients were told, and what must be true of it whatever happened to the brokers."""

from __future__ import annotations

from collections.abc import Callable


class Broken(AssertionError):
    """A promise was broken."""


class History:
    """Judges as it grows: raises `Broken` at the answer that contradicts another one."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.sent_values: dict[tuple[str, int], list[bytes]] = {}
        self.acks: dict[tuple[str, int], dict[int, bytes]] = {}
        self.seen: dict[tuple[str, int], dict[int, bytes]] = {}
        self.places: dict[tuple[str, int], dict[bytes, int]] = {}
        self.transactions: dict[bytes, str] = {}
        self.visible: dict[bytes, set[int]] = {}
        self.last: dict[tuple[str, int], dict[int, bytes]] = {}
        """What is read when everything is quiet."""
        self.leaders: dict[tuple[str, int, int], int] = {}
        self.topics: dict[str, int] = {}
        """Partitions that a topic shall have, 0 for one that shall be gone."""
        self.moved: dict[tuple[str, int], list[int]] = {}
        """The replicas that a partition shall have."""
        self.unsure: set[object] = set()
        """What orders without an answer were about: nothing certain can be said of it."""
        self.acked = 0

    def broken(self, what: str) -> None:
        self._note(f"BROKEN: {what}")
        raise Broken(what)

    def led(self, topic: str, partition: int, epoch: int, leader: int) -> None:
        """Somebody is told who leads."""
        known = self.leaders.setdefault((topic, partition, epoch), leader)
        if known != leader:
            self.broken(f"{topic}-{partition} is led by {known} and by {leader} in epoch {epoch}")

    # -- a queue -------------------------------------------------------------------------------------------------------

    def sent(self, topic: str, partition: int, values: list[bytes]) -> None:
        self.sent_values.setdefault((topic, partition), []).extend(values)

    def acknowledged(self, topic: str, partition: int, offset: int, values: list[bytes]) -> None:
        self.acked += len(values)
        self._note(f"{topic}-{partition} acknowledges {[value.decode() for value in values]} at {offset}")
        for at, value in enumerate(values):
            known = self.acks.setdefault((topic, partition), {}).setdefault(offset + at, value)
            if known != value:
                self.broken(f"{topic}-{partition} acknowledged {known!r} and {value!r} at offset {offset + at}")
            read = self.seen.get((topic, partition), {}).get(offset + at)
            if read is not None and read != value:
                self.broken(f"{topic}-{partition} acknowledged {value!r} at offset {offset + at}, where {read!r} is")

    def read(self, topic: str, partition: int, offset: int, value: bytes, isolation: int) -> None:
        """A reader got this record, which is committed therefore."""
        where = (topic, partition)
        if isolation:
            self._saw_transaction(partition, value)
        known = self.seen.setdefault(where, {}).setdefault(offset, value)
        if known != value:
            self.broken(f"{topic}-{partition} gave {known!r} and later {value!r} at offset {offset}")
        acknowledged = self.acks.get(where, {}).get(offset, value)
        if acknowledged != value:
            self.broken(
                f"{topic}-{partition} gave {value!r} at offset {offset}, where {acknowledged!r} was acknowledged"
            )
        place = self.places.setdefault(where, {}).setdefault(value, offset)
        if place != offset:
            self.broken(f"{topic}-{partition} has {value!r} twice, at {place} and {offset}")

    def out_of_range(self, where: str, offset: int, high_watermark: int) -> None:
        """A reader that has come to `offset` is told that there is no such place."""
        self.broken(f"{where} lost what a reader had read: no offset {offset}, high watermark {high_watermark}")

    # -- transactions --------------------------------------------------------------------------------------------------

    def begun(self, value: bytes) -> None:
        self.transactions[value] = "open"

    def ending(self, value: bytes, commit: bool) -> None:
        self.transactions[value] = "committing" if commit else "aborting"

    def ended(self, value: bytes, commit: bool) -> None:
        self.transactions[value] = "committed" if commit else "aborted"
        self._note(f"transaction {value.decode()} is {self.transactions[value]}")

    def _saw_transaction(self, partition: int, value: bytes) -> None:
        self.visible.setdefault(value, set()).add(partition)
        if self.transactions.get(value) not in ("committing", "committed"):
            self.broken(f"a reader of committed records sees {value!r} of a transaction {self.transactions.get(value)}")

    # -- at the end ----------------------------------------------------------------------------------------------------

    def check_end(self, partitions: int) -> None:
        """Every partition has been read from its beginning to its end after the last fault."""
        for what, told in (("acknowledged records", self.acks), ("records that a reader had", self.seen)):
            for where, records in told.items():
                there = self.last.get(where, {})
                if missing := {offset: value for offset, value in records.items() if offset not in there}:
                    self.broken(f"{where[0]}-{where[1]} lost {what}: {missing}")
        for (topic, partition), sent in self.sent_values.items():
            order: dict[bytes, list[int]] = {}
            number = {value: at for at, value in enumerate(sent)}
            for _, value in sorted(self.seen.get((topic, partition), {}).items()):
                order.setdefault(value.split(b":")[0], []).append(number[value])
            for producer, numbers in order.items():
                if numbers != sorted(numbers):
                    self.broken(f"{topic}-{partition} has records of {producer!r} in another order than they were sent")
        for value, state in self.transactions.items():
            seen = len(self.visible.get(value, ()))
            if state == "committed" and seen != partitions:
                self.broken(f"transaction {value!r} was committed, {seen} of {partitions} partitions show it")
            if seen not in (0, partitions):
                self.broken(f"transaction {value!r} ({state}) is half visible")
