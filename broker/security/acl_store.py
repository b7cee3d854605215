"""The ACLs of the cluster: read from ZooKeeper, followed there, and changed.

A znode holds all entries of one pattern. It is written only on condition that it has not changed since it was read;
whoever changes one adds a notification, and every broker then reads that znode again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from broker.requests.authorization import ResourceType
from broker.security.acls import (
    LITERAL,
    PATTERN_NAMES,
    PREFIXED,
    TYPE_NAMES,
    Entry,
    Pattern,
    decode_entries,
    encode_entries,
)
from controller.zk import paths
from controller.zk.access import expect
from controller.zk.change_listener import ChangeListener
from controller.zk.ops import Code, Create, Delete, Response, SetData
from controller.zk.reruns import Reruns
from controller.zk.session import SessionExpiredError, SessionHandler, ZkError
from network.json_text import parse_json

if TYPE_CHECKING:
    from controller.zk.client import ZkClient
    from timer.clock import Clock
    from timer.worker import Workers

logger = logging.getLogger(__name__)

MAX_RETRIES: Final = 10
RETRY_MS: Final = 100

Entries = frozenset[Entry]
Change = Callable[[Entries], Entries]

_NAME = "acl-store"
_TYPES = {name: code for code, name in TYPE_NAMES.items()}
_ROOTS = {LITERAL: paths.ACL, PREFIXED: f"{paths.EXTENDED_ACL}/prefixed"}
_CONFLICTS = (Code.NO_NODE, Code.BAD_VERSION, Code.NODE_EXISTS)


class AclConflictError(Exception):
    """Others changed the same znode again and again."""


def path_of(pattern: Pattern) -> str:
    """The znode that holds the entries of a pattern."""
    return f"{_ROOTS[pattern.pattern_type]}/{TYPE_NAMES[pattern.resource_type]}/{pattern.name}"


def notification_of(pattern: Pattern) -> tuple[str, bytes]:
    """Where a change of a pattern is told, and in what words."""
    if pattern.pattern_type == LITERAL:
        return paths.ACL_CHANGES, f"{pattern.upper_type}:{pattern.name}".encode()
    told = {
        "version": 1,
        "resourceType": pattern.upper_type,
        "name": pattern.name,
        "patternType": PATTERN_NAMES[pattern.pattern_type],
    }
    return paths.EXTENDED_ACL_CHANGES, json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()


def read_literal_notification(data: bytes) -> Pattern:
    """The pattern that `TYPE:name` means. Raises ValueError."""
    kind, colon, name = data.decode().partition(":")
    if not colon:
        raise ValueError(f"an ACL notification without a colon: {data!r}")
    return Pattern(_type(kind), name)


def read_extended_notification(data: bytes) -> Pattern:
    """The pattern of a notification in JSON. Raises ValueError."""
    try:
        told = parse_json(data)
        if told["version"] > 1:
            raise ValueError(f"an ACL notification of version {told['version']}")
        kinds = {name: code for code, name in PATTERN_NAMES.items() if code in _ROOTS}
        return Pattern(_type(told["resourceType"]), told["name"], kinds[told["patternType"].upper()])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an ACL notification lacks something: {error}") from error


def _type(name: str) -> ResourceType:
    try:
        return ResourceType[name.strip().upper()]
    except KeyError:
        raise ValueError(f"an ACL notification of an unknown resource type: {name}") from None


class AclStore:
    """What ZooKeeper says, and how it is changed. `tell` gets each pattern whose entries are known anew.

    Changes wait for ZooKeeper and are made one after the other, from any thread.
    """

    def __init__(
        self, zk: ZkClient, clock: Clock, tell: Callable[[Pattern, Entries], None], workers: Workers | None = None
    ) -> None:
        self._zk = zk
        self._clock = clock
        self._tell = tell
        self._lock = threading.Condition()
        self._known: dict[Pattern, tuple[Entries, int]] = {}
        self._untold: set[Pattern] = set()
        """What this broker has written, or may have, without a notification of it."""
        self._listeners = [
            ChangeListener(zk, path, paths.ACL_CHANGE_PREFIX, self._on_notification(read), clock, workers)
            for path, read in (
                (paths.ACL_CHANGES, read_literal_notification),
                (paths.EXTENDED_ACL_CHANGES, read_extended_notification),
            )
        ]
        self._reruns = Reruns(_NAME, self._reload, clock, workers)

    def start(self) -> None:
        """Make the znodes, listen, then read everything, so that nothing is missed in between."""
        for root in _ROOTS.values():
            for name in TYPE_NAMES.values():
                self._zk.create_recursive(f"{root}/{name}", None, fail_if_exists=False)
        for path in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
            self._zk.create_recursive(path, None, fail_if_exists=False)
        for listener in self._listeners:
            listener.start()
        self._load()
        # Notifications may have been removed while there was no session.
        self._zk.session.register_session_handler(SessionHandler(_NAME, after_new_session=self._reruns.request))
        self._reruns.start()

    def close(self) -> None:
        """Follow no more."""
        self._zk.session.unregister_session_handler(_NAME)
        self._reruns.close()
        for listener in self._listeners:
            listener.close()

    def patterns(self) -> list[Pattern]:
        """All that have entries."""
        with self._lock:
            return [pattern for pattern, (entries, _) in self._known.items() if entries]

    def change(self, pattern: Pattern, change: Change) -> None:
        """Replace the entries of a pattern by what `change` makes of them; it may be asked several times.

        Raises `ZkError`, and `AclConflictError` if others change them all the time.
        """
        with self._lock:
            known = self._known.get(pattern)
            for _ in range(MAX_RETRIES + 1):
                entries, version = self._read(pattern) if known is None else known
                wanted = change(entries)
                if wanted == entries and known is not None:
                    known = None  # what is known may be old: that nothing is to be done is for ZooKeeper to say
                    continue
                if wanted == entries:
                    self._use(pattern, entries, version)
                    if pattern in self._untold:
                        self._tell_others(pattern)
                    return
                self._untold.add(pattern)  # a write that fails may have been made all the same
                written = self._write(pattern, wanted, version)
                if written is not None:
                    self._use(pattern, wanted, written)
                    self._tell_others(pattern)
                    return
                known = None
                self._clock.wait(self._lock, RETRY_MS)
        raise AclConflictError(f"Failed to update ACLs for {path_of(pattern)} after trying {MAX_RETRIES} times")

    def _tell_others(self, pattern: Pattern) -> None:
        path, data = notification_of(pattern)
        self._zk.create_sequential(f"{path}/{paths.ACL_CHANGE_PREFIX}", data)
        self._untold.discard(pattern)

    # ------------------------------------------------------------------ ZooKeeper

    def _read(self, pattern: Pattern) -> tuple[Entries, int]:
        """The entries and the znode's version, -1 without one."""
        found = self._zk.read(path_of(pattern))
        return (frozenset(), -1) if found is None else (decode_entries(found[0]), found[1].version)

    def _write(self, pattern: Pattern, entries: Entries, version: int) -> int | None:
        """Returns the new version, -1 for none; None if somebody was faster."""
        path = path_of(pattern)
        if entries:
            data = encode_entries(entries)
            request = Create(path, data) if version < 0 else SetData(path, data, version)
            response = self._zk.session.submit([request])[0]
            if response.code in _CONFLICTS:
                return None
            expect(response, path)
            return 0 if version < 0 else _version(response)
        response = self._zk.session.submit([Delete(path, version)])[0]
        if response.code is Code.BAD_VERSION:
            return None
        if response.code is not Code.NO_NODE:
            expect(response, path)
        return -1

    # ------------------------------------------------------------------ following

    def _on_notification(self, read: Callable[[bytes], Pattern]) -> Callable[[bytes], None]:
        def process(data: bytes) -> None:
            pattern = read(data)
            with self._lock:
                self._use(pattern, *self._read(pattern))

        return process

    def _reload(self) -> None:
        try:
            self._load()
        except SessionExpiredError:
            pass  # the next session asks again
        except (ZkError, ValueError):
            logger.exception("the ACLs in ZooKeeper could not be read again")

    def _load(self) -> None:
        with self._lock:
            found = dict(self._everything())
            for pattern in self._known.keys() - found.keys():
                self._use(pattern, frozenset(), -1)
            for pattern, (entries, version) in found.items():
                self._use(pattern, entries, version)

    def _everything(self) -> Iterator[tuple[Pattern, tuple[Entries, int]]]:
        for kind, root in _ROOTS.items():
            for directory in self._zk.children(root, watch=False):
                resource_type = _TYPES.get(directory)
                if resource_type is None:
                    logger.warning("unknown kind of resource in ZooKeeper: %s/%s", root, directory)
                    continue
                names = self._zk.children(f"{root}/{directory}", watch=False)
                patterns = [Pattern(resource_type, name, kind) for name in names]
                znodes = self._zk.read_all([path_of(pattern) for pattern in patterns])
                for pattern, znode in zip(patterns, znodes, strict=True):
                    if znode is not None:
                        yield pattern, (decode_entries(znode[0]), znode[1].version)

    def _use(self, pattern: Pattern, entries: Entries, version: int) -> None:
        if version < 0:
            self._known.pop(pattern, None)
        else:
            self._known[pattern] = (entries, version)
        self._tell(pattern, entries)


def _version(response: Response) -> int:
    assert response.stat is not None
    return response.stat.version
