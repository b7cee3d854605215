"""A network namespace a broker, joined by a bridge to the one where clients and ZooKeeper are; links that are bad.

Rules are iptables' and queues are tc's, in the broker's namespace. The delay of a slow link is that of its queue.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from typing import Literal

HUB = "10.77.0.1"
"""Clients and ZooKeeper."""
Direction = Literal["in", "out", "both"]
_RATE = ["rate", "400kbit", "burst", "4kb", "latency", "1500ms"]
_CHAINS = {"in": ["INPUT"], "out": ["OUTPUT"], "both": ["INPUT", "OUTPUT"]}


class Network:
    """Made in the namespace that this process is in, which is the campaign's own and ends with it."""

    def __init__(self, brokers: int) -> None:
        _run("ip", "link", "add", "hub", "type", "bridge")
        _run("ip", "address", "add", f"{HUB}/24", "dev", "hub")
        _run("ip", "link", "set", "hub", "up")
        for number in range(brokers):
            name, link = f"broker-{number}", f"link-{number}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", link, "master", "hub", "up")
            for arguments in (
                ("ip", "link", "set", "lo", "up"),
                ("ip", "address", "add", f"{self.host(number)}/24", "dev", "eth0"),
                ("ip", "link", "set", "eth0", "up"),
            ):
                self._inside(number, *arguments)
        self._brokers = brokers

    def close(self) -> None:
        """No broker runs any more."""
        for number in range(self._brokers):
            _run("ip", "netns", "delete", f"broker-{number}")
        _run("ip", "link", "delete", "hub")

    def host(self, number: int) -> str:
        """The address of one broker."""
        return f"10.77.0.{10 + number}"

    def prefix(self, number: int) -> list[str]:
        """What a command of this broker begins with; it becomes the command."""
        return ["nsenter", f"--net=/run/netns/broker-{number}", "--"]

    def rules(
        self, direction: Direction, other: str | None = None, port: int | None = None, share: float = 1.0
    ) -> list[list[str]]:
        """To drop what a broker sends to or is sent by another address (or any), by one of its ports (or any)."""
        made = []
        for chain in _CHAINS[direction]:
            rule = [chain, "-i" if chain == "INPUT" else "-o", "eth0"]
            if other is not None:
                rule += ["-s" if chain == "INPUT" else "-d", other]
            if port is not None:
                rule += ["-p", "tcp", "--sport" if chain == "INPUT" else "--dport", str(port)]
            if share < 1:
                rule += ["-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}"]
            made.append([*rule, "-j", "DROP"])
        return made

    def drop(self, number: int, rules: Iterable[Sequence[str]]) -> None:
        """From now on."""
        for rule in rules:
            self._inside(number, "iptables", "-w", "-A", *rule)

    def mend(self, number: int, rules: Iterable[Sequence[str]]) -> None:
        """No more."""
        for rule in rules:
            self._inside(number, "iptables", "-w", "-D", *rule)

    def slow(self, number: int, direction: Direction) -> None:
        """What it sends, what it is sent, or both goes through a narrow queue."""
        if direction != "in":
            self._inside(number, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *_RATE)
        if direction != "out":
            _run("tc", "qdisc", "replace", "dev", f"link-{number}", "root", "tbf", *_RATE)

    def fast(self, number: int, direction: Direction) -> None:
        """The end of `slow`."""
        if direction != "in":
            self._inside(number, "tc", "qdisc", "delete", "dev", "eth0", "root")
        if direction != "out":
            _run("tc", "qdisc", "delete", "dev", f"link-{number}", "root")

    def _inside(self, number: int, *arguments: str) -> None:
        _run(*self.prefix(number), *arguments)


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
