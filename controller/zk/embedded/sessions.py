"""Sessions: ids, passwords, and when each ends unless its client is heard from."""

from __future__ import annotations

import hashlib
import heapq
import hmac
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Session:
    session_id: int
    timeout_ms: int
    # By the monotonic clock.
    deadline_ms: int


def first_session_id(wall_ms: int) -> int:
    """Of a server that starts now: later than those of servers before it, as ZooKeeper makes them (server 1)."""
    return ((wall_ms << 24) & 0xFFFFFFFFFFFFFFFF) >> 8 | 1 << 56


class Sessions:
    """The live ones."""

    def __init__(self, next_id: int, secret: bytes) -> None:
        self.next_id = next_id
        self._secret = secret
        self.live: dict[int, Session] = {}
        self._queue: list[tuple[int, int]] = []

    def new_id(self) -> int:
        found = self.next_id
        self.next_id += 1
        return found

    def add(self, session_id: int, timeout_ms: int, monotonic_ms: int) -> Session:
        session = Session(session_id, timeout_ms, monotonic_ms + timeout_ms)
        self.live[session_id] = session
        self.next_id = max(self.next_id, session_id + 1)
        self._enqueue(session)
        return session

    def remove(self, session_id: int) -> None:
        self.live.pop(session_id, None)

    def touch(self, session: Session, monotonic_ms: int) -> None:
        """Its client was heard from."""
        deadline = monotonic_ms + session.timeout_ms
        if deadline < session.deadline_ms:
            # A shorter timeout was agreed on after a reconnect: the one queued would be too late.
            session.deadline_ms = deadline
            self._enqueue(session)
        session.deadline_ms = deadline

    def password(self, session_id: int) -> bytes:
        return hmac.new(self._secret, session_id.to_bytes(8, "big"), hashlib.sha256).digest()[:16]

    def is_password(self, session_id: int, password: bytes) -> bool:
        return session_id != 0 and hmac.compare_digest(self.password(session_id), password)

    def expired(self, monotonic_ms: int) -> list[int]:
        """Sessions that were not heard from in time, oldest first; the caller ends them."""
        found: dict[int, None] = {}
        while self._queue and self._queue[0][0] <= monotonic_ms:
            _, session_id = heapq.heappop(self._queue)
            session = self.live.get(session_id)
            if session is None:
                continue
            if session.deadline_ms <= monotonic_ms:
                found[session_id] = None
            else:
                self._enqueue(session)
        return list(found)

    def next_deadline_ms(self) -> int | None:
        """When `expired` has to be asked next."""
        return self._queue[0][0] if self._queue else None

    def _enqueue(self, session: Session) -> None:
        heapq.heappush(self._queue, (session.deadline_ms, session.session_id))
