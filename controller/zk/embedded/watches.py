"""Who waits for changes of which path: one-shot, persistent and recursive watches."""

from __future__ import annotations

from typing import Generic, TypeVar

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4
ANY = STANDARD | PERSISTENT | RECURSIVE

Watcher = TypeVar("Watcher")


class WatchTable(Generic[Watcher]):
    """Watches of one kind (data or children). A watcher has up to three modes on a path."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[Watcher, int]] = {}
        self._by_watcher: dict[Watcher, set[str]] = {}
        self._recursive = 0
        self._size = 0

    def __len__(self) -> int:
        """Pairs of a path and a watcher."""
        return self._size

    def add(self, path: str, watcher: Watcher, mode: int = STANDARD) -> None:
        modes = self._by_path.setdefault(path, {})
        before = modes.get(watcher, 0)
        modes[watcher] = before | mode
        if not before:
            self._size += 1
        self._by_watcher.setdefault(watcher, set()).add(path)
        if mode & ~before & RECURSIVE:
            self._recursive += 1

    def has(self, path: str, watcher: Watcher, modes: int) -> bool:
        return bool(self._by_path.get(path, {}).get(watcher, 0) & modes)

    def remove(self, path: str, watcher: Watcher, modes: int) -> bool:
        """False if there was none of these modes."""
        table = self._by_path.get(path, {})
        before = table.get(watcher, 0)
        if not before & modes:
            return False
        if before & modes & RECURSIVE:
            self._recursive -= 1
        rest = before & ~modes
        if rest:
            table[watcher] = rest
        else:
            self._forget(path, table, watcher)
        return True

    def remove_watcher(self, watcher: Watcher) -> None:
        """All of a connection's."""
        for path in self._by_watcher.pop(watcher, ()):
            table = self._by_path[path]
            self._size -= 1
            if table.pop(watcher) & RECURSIVE:
                self._recursive -= 1
            if not table:
                del self._by_path[path]

    def trigger(self, path: str) -> list[Watcher]:
        """Whoever waits for a change of `path`, each once; one-shot watches are used up."""
        table = self._by_path.get(path)
        found = []
        if table is not None:
            found = list(table)
            for watcher, modes in list(table.items()):
                rest = modes & ~STANDARD
                if rest:
                    table[watcher] = rest
                else:
                    self._forget(path, table, watcher)
        if self._recursive and path != "/":
            self._add_recursive(path, found)
        return found

    def _add_recursive(self, path: str, found: list[Watcher]) -> None:
        seen = set(found)
        while path != "/":
            path = path.rpartition("/")[0] or "/"
            for watcher, modes in self._by_path.get(path, {}).items():
                if modes & RECURSIVE and watcher not in seen:
                    seen.add(watcher)
                    found.append(watcher)

    def _forget(self, path: str, table: dict[Watcher, int], watcher: Watcher) -> None:
        del table[watcher]
        self._size -= 1
        if not table:
            del self._by_path[path]
        mine = self._by_watcher[watcher]
        mine.discard(path)
        if not mine:
            del self._by_watcher[watcher]
