"""Four-letter words: what an operator (or a port check) asks without a session."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from controller.zk.embedded.machine import Machine

# kazoo takes the digits at its beginning.
VERSION = "3.9.5-odradek"


@dataclass(slots=True)
class Counters:
    """What a server counts for them."""

    received: int = 0
    sent: int = 0
    connections: int = 0
    outstanding: int = 0
    settings: dict[str, object] = field(default_factory=dict)


def answer(word: bytes, machine: Machine, counters: Counters) -> bytes | None:
    """The text for a word, None if it is not one."""
    if word == b"ruok":
        return b"imok"
    if word in (b"srvr", b"stat"):
        return _srvr(machine, counters).encode()
    if word == b"mntr":
        return _mntr(machine, counters).encode()
    if word == b"envi":
        rows = {
            "zookeeper.version": VERSION,
            "os.name": sys.platform,
            "python.version": ".".join(map(str, sys.version_info[:3])),
        }
        return "".join(["Environment:\n", *(f"{key}={value}\n" for key, value in rows.items())]).encode()
    if word == b"conf":
        return "".join(f"{key}={value}\n" for key, value in counters.settings.items()).encode()
    return None


def _srvr(machine: Machine, counters: Counters) -> str:
    return (
        f"Zookeeper version: {VERSION}\n"
        f"Received: {counters.received}\n"
        f"Sent: {counters.sent}\n"
        f"Connections: {counters.connections}\n"
        f"Outstanding: {counters.outstanding}\n"
        f"Zxid: {machine.zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {len(machine.tree.nodes)}\n"
    )


def _mntr(machine: Machine, counters: Counters) -> str:
    ephemerals = sum(map(len, machine.tree.ephemerals.values()))
    rows = {
        "version": VERSION,
        "server_state": "standalone",
        "packets_received": counters.received,
        "packets_sent": counters.sent,
        "num_alive_connections": counters.connections,
        "outstanding_requests": counters.outstanding,
        "znode_count": len(machine.tree.nodes),
        "watch_count": machine.watch_count,
        "ephemerals_count": ephemerals,
        "approximate_data_size": machine.tree.data_size,
        "global_sessions": len(machine.sessions.live),
    }
    return "".join(f"zk_{name}\t{value}\n" for name, value in rows.items())
