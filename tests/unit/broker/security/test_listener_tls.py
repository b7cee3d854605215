"""New keys for the listeners of a running broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.security.listeners import ListenerSecurity


class Listener:
    def __init__(self, failure: Exception | None = None) -> None:
        self.listener = "L"
        self.reloads = 0
        self._failure = failure

    def reload(self) -> bool:
        self.reloads += 1
        if self._failure is not None:
            raise self._failure
        return True


def test_a_listener_whose_files_nobody_foresaw_keeps_no_other_from_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    security = ListenerSecurity(cast(Any, None), cast(Any, None))
    odd, good = Listener(RuntimeError("a kind of file that the library does not know")), Listener()
    security.tls = cast(Any, {"ODD": odd, "GOOD": good})
    security.reload()
    assert (odd.reloads, good.reloads) == (1, 1)
    assert "the old ones stay" in caplog.text
