"""A network, a tree of mounts and a set of processes of the campaign's own: whatever it makes there ends with it.

Needs root. Without, the campaign goes on as it is, without the faults that need it.
"""

from __future__ import annotations

import os
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
_NEEDED = "ip link add one type veth peer name two && iptables -L -n && tc -V && nsenter --version"


def command(program: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """How to start a program inside, and the environment that tells it; as it is where that may not be."""
    try:
        tried = subprocess.run([*_INSIDE, "sh", "-c", _NEEDED], capture_output=True, text=True, timeout=60, check=False)
        trouble = tried.stderr.strip() if tried.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    if trouble:
        return list(program), {_MARK: f"no: {trouble.splitlines()[-1]}"}
    return [*_INSIDE, *program], {_MARK: "yes"}


def enter(module: str) -> None:
    """Become the same program inside, unless this is it already. Returns inside, or where it may not be."""
    if _MARK not in os.environ:
        program, environment = command([sys.executable, "-m", module, *sys.argv[1:]])
        os.execvpe(program[0], program, {**os.environ, **environment})


def missing() -> str:
    """Why the campaign has no network and mounts of its own; empty if it has."""
    state = os.environ.get(_MARK, "no: not started by its command")
    return "" if state == "yes" else state.removeprefix("no: ")
