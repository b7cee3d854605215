"""Files and directories as a disk has them: what has been synced, and in order what has been changed since."""

from __future__ import annotations

from random import Random

Change = int | tuple[int, bytes]
"""Of a file: its size, or a position and what was written there."""

_SECTOR = 512
"""Bytes that a disk writes all or not at all. A file system tells no size of a file before its first ones are there."""


class File:
    """`content` is what a process reads, `durable` what was there when it was last synced."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.content = bytearray(durable)
        self.changes: list[Change] = []

    def change(self, change: Change) -> None:
        self.changes.append(change)
        _apply(self.content, change)

    def sync(self) -> None:
        if self.changes:
            self.durable = bytes(self.content)
            self.changes.clear()

    def after_power_loss(self, rng: Random) -> bytes:
        """Any beginning of the changes; of those, sectors behind the first may be missing where their size is there."""
        if not self.changes:
            return self.durable
        content = bytearray(self.durable)
        torn = rng.random() < 0.3
        for change in self.changes[: _some(len(self.changes), rng)]:
            if torn and not isinstance(change, int) and rng.random() < 0.5:
                position, data = change
                _apply(content, max(len(content), position + len(data)))
                change = position, data[: _SECTOR * rng.randint(1, 1 + len(data) // _SECTOR) - position % _SECTOR]
            _apply(content, change)
        return bytes(content)


class Directory:
    """Names: those of now, and what they were when the directory was last synced.

    Changes of the same directory reach the disk in order, as they do with a journal; those of different directories,
    and those of a file and its name, independently of each other.
    """

    def __init__(self, durable: dict[str, Node] | None = None) -> None:
        self.durable: dict[str, Node] = dict(durable or {})
        self.names = dict(self.durable)
        self.changes: list[dict[str, Node | None]] = []

    def change(self, change: dict[str, Node | None]) -> None:
        self.changes.append(change)
        _rename(self.names, change)

    def sync(self) -> None:
        if self.changes:
            self.durable = dict(self.names)
            self.changes.clear()

    def after_power_loss(self, rng: Random) -> Directory:
        names = dict(self.durable)
        for change in self.changes[: _some(len(self.changes), rng)]:
            _rename(names, change)
        left: dict[str, Node] = {}
        for name, node in sorted(names.items()):
            left[name] = File(node.after_power_loss(rng)) if isinstance(node, File) else node.after_power_loss(rng)
        return Directory(left)

    def size(self) -> int:
        """Bytes in all files."""
        return sum(len(node.content) if isinstance(node, File) else node.size() for node in self.names.values())


Node = File | Directory


def _some(count: int, rng: Random) -> int:
    return rng.choice((0, count, rng.randint(0, count)))


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, int):
        del content[change:]
        content.extend(bytes(change - len(content)))
    else:
        position, data = change
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


def _rename(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
