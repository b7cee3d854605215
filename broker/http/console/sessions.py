"""Who is logged in: a bounded table of sessions by random ids, each with its user's own client of the cluster."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from network.client.cluster_client import ClusterClient
    from timer.chance import Chance
    from timer.clock import Clock

MAX_SESSIONS = 32
IDLE_MS = 30 * 60_000
LIFE_MS = 8 * 3_600_000
MAX_FAILURES = 10
FAILURE_WINDOW_MS = 60_000
_ID_BYTES = 32
_MAX_PEERS = 1_000


@dataclass(slots=True)
class Session:
    """`token` is what changes have to carry. `user` is None where nobody logs in."""

    user: str | None
    client: ClusterClient
    token: str
    made_ms: int
    used_ms: int
    internals: tuple[bool, int] | None = field(default=None)
    """Whether the user may see the broker's internals, and when that was asked."""


class Sessions:
    """At most `MAX_SESSIONS`: the one that was not used for longest makes room. Used on one thread, that of the HTTP
    server."""

    def __init__(self, clock: Clock, chance: Chance, close: Callable[[ClusterClient], None]) -> None:
        """`close` is told of the clients of sessions that end."""
        self._clock = clock
        self._chance = chance
        self._close = close
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user: str, client: ClusterClient) -> str:
        """A new session; returns its id, which is not kept itself."""
        self._expire()
        while len(self._sessions) >= MAX_SESSIONS:
            self._close(self._sessions.popitem(last=False)[1].client)
        session_id, now = self.random_text(), self._clock.monotonic_ms()
        self._sessions[_digest(session_id)] = Session(user, client, self.random_text(), now, now)
        return session_id

    def find(self, session_id: str) -> Session | None:
        """The session of an id that a browser sends, if it has not ended."""
        self._expire()
        digest = _digest(session_id)
        session = self._sessions.get(digest)
        if session is not None:
            session.used_ms = self._clock.monotonic_ms()
            self._sessions.move_to_end(digest)
        return session

    def end(self, session_id: str) -> None:
        """Log out."""
        session = self._sessions.pop(_digest(session_id), None)
        if session is not None:
            self._close(session.client)

    def close(self) -> None:
        """End all."""
        while self._sessions:
            self._close(self._sessions.popitem()[1].client)

    def random_text(self) -> str:
        """What nobody can foresee, of letters, digits, `-` and `_`."""
        return base64.urlsafe_b64encode(self._chance.randbytes(_ID_BYTES)).rstrip(b"=").decode()

    def _expire(self) -> None:
        now = self._clock.monotonic_ms()
        ended = [
            digest
            for digest, session in self._sessions.items()
            if now - session.used_ms > IDLE_MS or now - session.made_ms > LIFE_MS
        ]
        for digest in ended:
            self._close(self._sessions.pop(digest).client)


class Failures:
    """Failed logins by address: `MAX_FAILURES` in `FAILURE_WINDOW_MS`, then none is tried until the window is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_peer: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def note(self, peer: str) -> None:
        """A login has failed."""
        now = self._clock.monotonic_ms()
        since, count = self._by_peer.pop(peer, (now, 0))
        if now - since > FAILURE_WINDOW_MS:
            since, count = now, 0
        self._by_peer[peer] = since, count + 1
        while len(self._by_peer) > _MAX_PEERS:
            self._by_peer.popitem(last=False)

    def too_many(self, peer: str) -> bool:
        """Whether this address has to wait."""
        since, count = self._by_peer.get(peer, (0, 0))
        return count >= MAX_FAILURES and self._clock.monotonic_ms() - since <= FAILURE_WINDOW_MS


def cookie_name(host: str) -> str:
    """Browsers keep the cookies of a host's ports together, so those of brokers on one machine have names of their
    own."""
    port = host.rpartition(":")[2]
    return f"odradek-console-{port if port.isdigit() else 80}"


def cookie_of(header: str, wanted: str) -> str:
    """A cookie's value in a Cookie header, or nothing."""
    for item in header.split(";"):
        name, _, value = item.strip().partition("=")
        if name == wanted:
            return value
    return ""


def set_cookie(name: str, value: str) -> str:
    """A Set-Cookie header; with an empty value the browser forgets the cookie."""
    end = "; Max-Age=0" if not value else ""
    return f"{name}={value}; Path=/console; HttpOnly; SameSite=Strict{end}"


def _digest(session_id: str) -> bytes:
    """Ids are looked up by their hash: how long that takes tells nothing about the ids that exist."""
    return hashlib.sha256(session_id.encode()).digest()
