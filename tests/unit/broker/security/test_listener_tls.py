"""New keys for the listeners of a running broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.config.keys import ConfigError
from broker.config.listeners import Endpoint
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


def test_java_s_switch_for_revoked_certificates_is_no_empty_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1g -Dcom.sun.net.ssl.checkRevocation=true")
    security = ListenerSecurity(cast(Any, None), cast(Any, None))
    with pytest.raises(ConfigError, match="checkRevocation=true, which is not served"):
        security.transport(Endpoint("L", "SSL", "h", 1))
    security.transport(Endpoint("L", "PLAINTEXT", "h", 1))
