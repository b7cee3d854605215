"""What of the product's surroundings is replaced while a simulation runs, and nothing else is.

- `threading`, `queue` and `time` of every module of the product, by `threads.py`;
- the sockets of `network.client.connection` and the broker's `SocketServer`, by `network.py`;
- `KazooSession`, by `sessions.py`;
- fsync and the truncation of files, by `disk.py`.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import broker.server
import network.client.connection
import network.server.request_channel
from broker.requests.handlers import import_handlers
from tests.simulation.real import threads
from tests.simulation.real.disk import Disk
from tests.simulation.real.network import Net, socket_module
from tests.simulation.real.runtime import Runtime, activate

PRODUCT = ("timer", "network", "log", "controller", "broker")
Patch = Callable[[Any, str, Any], None]


@contextmanager
def installed(owner: Runtime, net: Net, disk: Disk) -> Iterator[Patch]:
    """Everything is as it was at the end. Yields what the simulation's own seams are set with."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(target: Any, name: str, value: Any) -> None:
        undo.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    import_handlers()
    disabled = logging.root.manager.disable
    try:
        for module in product_modules():
            if getattr(module, "threading", None) is threading:
                patch(module, "threading", threads.THREADING)
            if getattr(module, "SimpleQueue", None) is SimpleQueue:
                patch(module, "SimpleQueue", threads.SimpleQueue)
        patch(sys.modules["timer.executor"], "queue", threads.QUEUE)
        clock = sys.modules["timer.clock"]
        assert vars(clock)["time"] is time
        patch(clock, "time", threads.TIME)
        patch(network.client.connection, "socket", socket_module(net))
        disk.install(patch)
        activate(owner)
        yield patch
    finally:
        activate(None)
        for target, name, value in reversed(undo):
            setattr(target, name, value)
        logging.disable(disabled)


def product_modules() -> list[Any]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] in PRODUCT and not name.startswith("broker.cli") and module is not None
    ]


SERVER: Any = broker.server
