"""Ports of processes that do not listen yet."""

from __future__ import annotations

import pytest

from broker.dev import processes
from broker.dev.processes import free_ports


def test_a_port_is_not_given_twice_while_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PORTS", range(20_000, 20_200))
    monkeypatch.setattr(processes, "_given", set())
    given = [port for _ in range(20) for port in free_ports(4)] + free_ports(5, consecutive=True)
    assert len(set(given)) == 85
    for _ in range(50):  # they do not run out
        assert len(set(free_ports(4))) == 4
