from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.sockets import EchoBroker, Servers


@pytest.fixture
def servers() -> Iterator[Servers]:
    not_ours = set(threading.enumerate())
    made = Servers()
    yield made
    before_close = [t for t in threading.enumerate() if "kafka" in t.name and t not in not_ours]
    made.close()
    left = [thread.name for thread in before_close if thread.is_alive()]
    assert not left, f"threads left behind: {left}"


@pytest.fixture
def broker() -> EchoBroker:
    return EchoBroker()
