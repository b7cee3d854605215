"""A network, a tree of mounts and a set of processes of the campaign's own: whatever it makes there ends with it.

Needs root. Without, the campaign goes on as it is, without the faults that need it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

_MARK = "ODRADEK_CAMPAIGN_ISOLATED"
# /run: names of network namespaces and the lock of iptables lie there.
_PREPARE = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
_UNSHARE = [
    "unshare",
    "--net",
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
_INSIDE = [*_UNSHARE, "--", "sh", "-c", _PREPARE, "sh"]
# Whatever `network.py` does, once: a kernel may have namespaces, and no such rules or queues.
_NEEDED = (
    "ip netns add probe && ip link add one type veth peer name two netns probe && ip link add hub type bridge && "
    "nsenter --net=/run/netns/probe -- iptables -w -A INPUT -m statistic --mode random --probability 0.5 -j DROP && "
    "tc qdisc replace dev one root tbf rate 400kbit burst 4kb latency 1500ms"
)


def command(program: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """How to start a program inside, and the environment that tells it; as it is where that may not be."""
    try:
        tried = subprocess.run([*_INSIDE, "sh", "-c", _NEEDED], capture_output=True, text=True, timeout=60, check=False)
        trouble = (tried.stderr.strip() or f"exit code {tried.returncode}") if tried.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    if trouble:
        return list(program), {_MARK: f"no: {trouble.splitlines()[-1]}"}
    return [*_INSIDE, *program], {_MARK: "yes"}


def enter(module: str) -> None:
    """Run the same program inside and end as it does, unless this is it already. Returns inside."""
    if _MARK in os.environ:
        if missing():
            # Nothing but the program itself ends what it has started.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        return
    program, environment = command([sys.executable, "-m", module, *sys.argv[1:]])
    process = subprocess.Popen(program, env={**os.environ, **environment})
    # `unshare` itself ends by no other signal, and all that is inside ends with it.
    asked = signal.SIGKILL if environment[_MARK] == "yes" else signal.SIGTERM
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(asked))
    while True:
        # A Ctrl-C is for the program inside.
        with contextlib.suppress(KeyboardInterrupt):
            sys.exit(process.wait())


def missing() -> str:
    """Why the campaign has no network and mounts of its own; empty if it has."""
    state = os.environ.get(_MARK, "no: not started by its command")
    return "" if state == "yes" else state.removeprefix("no: ")
