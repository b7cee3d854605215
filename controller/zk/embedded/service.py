"""A server from its start to its end: what is on disk, the socket, the line that says it serves."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from controller.zk.embedded.connection import Settings
from controller.zk.embedded.machine import Limits, Machine
from controller.zk.embedded.server import Server
from controller.zk.embedded.sessions import Sessions, first_session_id
from controller.zk.embedded.store import LOG_BYTES, FileStore, StoreError
from timer.chance import Chance, SystemChance
from timer.clock import Clock, SystemClock

NOTE = (
    "zookeeper: this is Odradek's embedded server: one node, for development, tests and the edge. "
    "A cluster that must survive the loss of a machine runs ZooKeeper (odradek zookeeper --java, or your own)."
)


class ServiceError(Exception):
    """The server can't start or can't go on; the message says why in one line."""


async def serve(
    host: str,
    port: int,
    data_dir: Path | None,
    limits: Limits,
    settings: Settings,
    stop: asyncio.Event,
    log_bytes: int = LOG_BYTES,
) -> None:
    """Until `stop` is set. Without a data directory nothing is kept. Raises ServiceError."""
    clock, chance = SystemClock(), SystemChance()
    print(NOTE, file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        try:
            machine, store = _machine(data_dir, limits, clock, chance, stack, log_bytes)
        except (StoreError, OSError) as error:
            raise ServiceError(str(error)) from error
        server = Server(machine, clock, settings, store)
        try:
            bound = await server.start(host, port)
        except OSError as error:
            raise ServiceError(
                f"can't listen on {host}:{port}: {error.strerror or error}; choose another with --port"
            ) from error
        print(f"ready: zookeeper.connect={host}:{bound}", flush=True)
        ended = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.stopped.wait())]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            each.cancel()
        if server.failure is not None:
            raise ServiceError(server.failure)
        await server.stop()


def _machine(
    data_dir: Path | None,
    limits: Limits,
    clock: Clock,
    chance: Chance,
    stack: contextlib.ExitStack,
    log_bytes: int,
) -> tuple[Machine, FileStore | None]:
    now_ms = clock.monotonic_ms()
    if data_dir is None:
        return Machine(Sessions(first_session_id(clock.wall_ms()), chance.randbytes(16)), limits), None
    store = stack.enter_context(FileStore(data_dir, log_bytes))
    sessions = Sessions(first_session_id(clock.wall_ms()), store.secret(chance))
    machine = store.recover(sessions, limits, now_ms)
    return machine, store
