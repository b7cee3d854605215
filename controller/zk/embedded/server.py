"""The state machine on a socket: asyncio, one loop, everything bounded.

An answer leaves after the transactions that it rests on are on disk; the disk has a thread of its own, and what comes
while it works goes with its next round (group commit).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from typing import Protocol

from controller.zk.embedded.codes import PING_XID
from controller.zk.embedded.connection import ClientProtocol, Settings
from controller.zk.embedded.encoding import encode
from controller.zk.embedded.machine import Effects, Machine, Moment
from controller.zk.embedded.records import Answer, Close, Message
from controller.zk.embedded.state import Connection
from controller.zk.embedded.transactions import Transaction
from controller.zk.embedded.words import Counters
from timer.clock import Clock


class Store(Protocol):
    """Where transactions are kept."""

    def append(self, transaction: Transaction) -> None:
        """Take it into the next round."""
        ...

    def has_pending(self) -> bool: ...

    def take(self) -> bytes:
        """What the next round writes."""
        ...

    def write(self, data: bytes) -> None:
        """Write and fsync; blocks, on a thread of its own. Raises OSError."""
        ...


class Server:
    """Clients, the machine between them, and the store behind."""

    def __init__(self, machine: Machine, clock: Clock, settings: Settings, store: Store | None = None) -> None:
        self.machine = machine
        self.settings = settings
        self.counters = Counters()
        self.failure: str | None = None
        self.stopped = asyncio.Event()
        self._clock = clock
        self._store = store
        self._clients: dict[Connection, ClientProtocol] = {}
        self._dirty: dict[ClientProtocol, None] = {}
        # Messages that wait for the disk: (round, client, frame; None closes).
        self._waiting: deque[tuple[int, ClientProtocol, bytes | None]] = deque()
        self._round = 0
        self._durable_zxid = machine.zxid
        self._is_writing = False
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last: tuple[Message, bytes] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: ClientProtocol(self), host, port, backlog=1024)
        self._schedule()
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Clients are cut off; what is under way to the disk arrives there."""
        if self._listener is not None:
            self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        while self._is_writing and self.failure is None:
            await asyncio.sleep(0.005)
        for client in list(self._clients.values()):
            client.close()

    def now(self) -> Moment:
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    def warn(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it, or the disk is full
            print(f"zookeeper: {text}", file=sys.stderr, flush=True)

    # -- clients

    def admit(self, client: ClientProtocol) -> bool:
        """False at the bound of connections."""
        if len(self._clients) >= self.settings.max_connections:
            self.warn(f"{self.settings.max_connections} connections are open: a further one is closed")
            return False
        assert client.connection is not None
        self._clients[client.connection] = client
        self.counters.connections = len(self._clients)
        return True

    def gone(self, client: ClientProtocol) -> None:
        assert client.connection is not None
        self.machine.disconnect(client.connection)
        self._clients.pop(client.connection, None)
        self.counters.connections = len(self._clients)

    # -- what the machine brings about

    def carry_out(self, effects: Effects) -> None:
        """Transactions to the store, messages to their clients behind them."""
        if self._store is not None and effects.transactions:
            for transaction in effects.transactions:
                self._store.append(transaction)
        elif effects.transactions:
            self._durable_zxid = self.machine.zxid
        has_pending = self._store is not None and self._store.has_pending()
        behind = self._is_writing or has_pending
        # Without transactions of the next round it is the one under way that is waited for: there may be no next one.
        turn = self._round + 1 if has_pending else self._round
        for connection, message in effects.outgoing:
            client = self._clients.get(connection)
            if client is None:
                continue
            frame = None if isinstance(message, Close) else self._encode(message)
            self.counters.sent += 1
            if behind:
                client.waiting += 1
                self._waiting.append((turn, client, frame))
            else:
                self._deliver(client, frame)
        if effects.outgoing and isinstance(effects.outgoing[-1][1], Answer | Close):
            return
        self._schedule()

    def answer_ping(self, client: ClientProtocol, effects: Effects) -> None:
        """At once, with the zxid that is on disk."""
        for _ in effects.outgoing:
            self._deliver(client, encode(Answer(PING_XID, self._durable_zxid)))

    def flush(self) -> None:
        """At the end of a client's round: write out, and give the disk what has come."""
        dirty, self._dirty = self._dirty, {}
        for client in dirty:
            client.write_out()
        if self._store is not None and not self._is_writing and self._store.has_pending():
            self._is_writing = True
            asyncio.get_running_loop().create_task(self._write(self._store))

    async def _write(self, store: Store) -> None:
        """Rounds as long as there is something to write.

        Whatever fails stops the server: no answer may be missing while pings keep sessions alive. Until it has stopped
        it counts as writing, so that nothing is written behind a torn frame, and nothing is told that is not on disk.
        """
        # What other clients have sent by now goes along.
        await asyncio.sleep(0)
        try:
            await self._write_rounds(store)
        except OSError as error:
            self.failure = f"the transaction log can't be written: {error}"
        except Exception as error:
            self.failure = f"an answer failed: {error!r}"
        else:
            self._is_writing = False
            return
        self.stopped.set()

    async def _write_rounds(self, store: Store) -> None:
        loop = asyncio.get_running_loop()
        while store.has_pending():
            self._round += 1
            zxid = self.machine.zxid
            await loop.run_in_executor(None, store.write, store.take())
            self._durable_zxid = zxid
            while self._waiting and self._waiting[0][0] <= self._round:
                _, client, frame = self._waiting.popleft()
                client.waiting -= 1
                self._deliver(client, frame)
            dirty, self._dirty = self._dirty, {}
            for client in dirty:
                client.write_out()

    def _encode(self, message: Message) -> bytes:
        """An event for many is encoded once."""
        last = self._last
        if last is not None and last[0] is message:
            return last[1]
        frame = encode(message)
        self._last = (message, frame)
        return frame

    def _deliver(self, client: ClientProtocol, frame: bytes | None) -> None:
        if frame is None:
            client.close()
            return
        client.send(frame)
        self._dirty[client] = None

    # -- time

    def _schedule(self) -> None:
        """Wake up when the machine has something to do."""
        due = self.machine.next_deadline_ms()
        loop = asyncio.get_running_loop()
        delay = 1.0 if due is None else max(due - self._clock.monotonic_ms(), 0) / 1000 + 0.001
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay, self._advance)

    def _advance(self) -> None:
        self._timer = None
        self.carry_out(self.machine.advance(self.now()))
        self.flush()
        self._schedule()
