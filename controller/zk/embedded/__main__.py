"""``python -m controller.zk.embedded``: the server in the foreground. Imports only what it needs, to start quickly."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from controller.zk.embedded.connection import Settings
from controller.zk.embedded.machine import Limits
from controller.zk.embedded.service import ServiceError, serve
from controller.zk.embedded.store import LOG_BYTES


def main(arguments: list[str] | None = None) -> int:
    """Exit code. Errors that a person can cure are one line."""
    parser = argparse.ArgumentParser(prog="odradek zookeeper")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=2181)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--data-dir", type=Path)
    kept.add_argument("--in-memory", action="store_true")
    parser.add_argument("--reap-interval-ms", type=int, default=Limits().reap_interval)
    parser.add_argument("--max-connections", type=int, default=Settings().max_connections)
    parser.add_argument("--sessionless-timeout-ms", type=int, default=Settings().sessionless_timeout_ms)
    parser.add_argument("--container-never-used-ms", type=int, default=Limits().container_never_used)
    parser.add_argument("--log-bytes", type=int, default=LOG_BYTES)
    found = parser.parse_args(arguments)
    limits = Limits(reap_interval=found.reap_interval_ms, container_never_used=found.container_never_used_ms)
    settings = Settings(found.max_connections, sessionless_timeout_ms=found.sessionless_timeout_ms)
    return run(found.host, found.port, found.data_dir, limits, settings, found.log_bytes)


def run(
    host: str, port: int, data_dir: Path | None, limits: Limits, settings: Settings, log_bytes: int = LOG_BYTES
) -> int:
    """Serve until SIGTERM or SIGINT."""

    async def until_signal() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(host, port, data_dir, limits, settings, stop, log_bytes)

    try:
        asyncio.run(until_signal())
    except ServiceError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
