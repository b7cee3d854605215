"""New keys for the listeners of a running broker."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from broker.config.keys import ConfigError
from broker.config.listeners import Endpoint
from broker.metrics import MetricsRegistry
from broker.security.certificate_watch import CertificateWatch
from broker.security.listeners import ListenerSecurity
from timer.clock import ManualClock

DAY_S = 86_400
NAME = ("kafka.server", "CertificateExpiry", "SecondsLeft")


class Forgetful:
    def forget(self, listener: str) -> None:
        """There is no SASL."""


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


class Certificate:
    """Of a listener, which ends on that day after the beginning of time."""

    def __init__(self, days: float) -> None:
        self._ends_s = days * DAY_S

    def seconds_left(self, now_s: float) -> float:
        return self._ends_s - now_s


def test_the_end_of_a_certificate_is_told_ahead(caplog: pytest.LogCaptureFixture) -> None:
    """As long as the listener is there, and from when it comes."""
    clock, metrics = ManualClock(), MetricsRegistry()
    security = ListenerSecurity(cast(Any, None), cast(Any, Forgetful()))
    began_days = clock.wall_ms() / 1000 / DAY_S
    security.tls = cast(Any, {"OUT": Certificate(began_days + 40)})
    watch = CertificateWatch(security, clock, metrics)

    def left() -> dict[str, float]:
        names = [name for name in ("OUT", "NEW") if metrics.get(*NAME, listener=name) is not None]
        return {name: metrics.value(*NAME, listener=name) / DAY_S for name in names}

    def told(days: int) -> str:
        clock.advance(days * DAY_S * 1000)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            watch.check()
        return caplog.text

    assert told(0) == ""
    assert left() == {"OUT": pytest.approx(40)}
    assert "the certificate of listener OUT expires in 29.0 days" in told(11)
    assert left() == {"OUT": pytest.approx(29)}
    assert "ERROR" in told(30)
    security.tls["NEW"] = cast(Any, Certificate(began_days + 400))
    security.forget("OUT")
    assert told(0) == ""
    assert left().keys() == {"NEW"}
