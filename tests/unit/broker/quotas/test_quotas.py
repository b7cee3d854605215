"""Rates, buckets, which quota holds for whom, and what is measured."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.metrics import MetricsRegistry
from broker.quotas import client_quota
from broker.quotas.client_quota import ClientQuota
from broker.quotas.limits import DEFAULT, Limits
from broker.quotas.quotas import Quotas
from broker.quotas.rates import QuotaRate, TokenBucket, Window
from timer.clock import ManualClock

BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}
WINDOW = Window(11, 1000)
GAUGES = 2
"""Of each client: its rate, and how long it had to wait."""


def test_a_newcomer_may_use_at_once_what_the_window_allows() -> None:
    rate = QuotaRate(100.0, WINDOW)
    rate.record(1000, 0)  # ten seconds' worth: the window but its running sample
    assert rate.per_second(0) == 100
    assert rate.delay_ms(0) == 0
    rate.record(1, 0)
    assert rate.delay_ms(0) == 10
    assert rate.largest() == 1000


def test_the_delay_brings_the_rate_back_to_the_bound() -> None:
    rate = QuotaRate(1000.0, WINDOW)
    now = 0.0
    for _ in range(200):
        rate.record(500, now)
        now += max(rate.delay_ms(now), 1)
    assert 200 * 500 / (now / 1000) == pytest.approx(1000, rel=0.12)


def test_what_is_taken_back_has_not_been_used() -> None:
    rate = QuotaRate(100.0, WINDOW)
    rate.record(5000, 0)
    rate.record(-5000, 0)
    assert rate.per_second(0) == 0


def test_old_samples_are_forgotten() -> None:
    rate = QuotaRate(100.0, WINDOW)
    rate.record(5000, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_a_bucket_may_be_overdrawn_once_and_fills_at_the_bound() -> None:
    bucket = TokenBucket(2.0, WINDOW, 0)
    assert bucket.tokens(0) == 22
    bucket.take(30, 0)
    assert (bucket.tokens(0), bucket.delay_ms(0)) == (-8, 4000)
    assert bucket.delay_ms(4000) == 0
    assert bucket.tokens(1_000_000) == 22


ORDER = [
    ("u", "c"),
    ("u", DEFAULT),
    ("u", None),
    (DEFAULT, "c"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "c"),
    (None, DEFAULT),
]


def test_the_most_specific_quota_holds() -> None:
    limits = Limits()
    for number, (user, client_id) in enumerate(reversed(ORDER)):
        limits.set(user, client_id, float(number))
        share = limits.of("u", "c")
        assert share is not None
        assert share.limit == number
    for user, client_id in ORDER:
        assert limits.of("u", "c") is not None
        limits.set(user, client_id, None)
    assert limits.of("u", "c") is None
    assert limits.is_empty


@pytest.mark.parametrize(
    ("quota", "shared"),
    [
        (("u", None), ("u", None)),
        ((DEFAULT, None), ("u", None)),
        ((None, DEFAULT), (None, "c")),
        (ORDER[4], ("u", "c")),
    ],
)
def test_who_shares_a_quota(quota: tuple[str | None, str | None], shared: tuple[str | None, str | None]) -> None:
    limits = Limits()
    limits.set(*quota, 1.0)
    share = limits.of("u", "c")
    assert share is not None
    assert (share.user, share.client_id) == shared


def quota_of(clock: ManualClock, metrics: MetricsRegistry) -> ClientQuota:
    return ClientQuota("Produce", "byte-rate", WINDOW, clock, metrics)


def test_a_changed_quota_is_in_force_at_the_next_request() -> None:
    quota = quota_of(ManualClock(), MetricsRegistry())
    assert not quota.is_active
    assert quota.record("u", "c", 10**9) == 0
    quota.set_limit("u", None, 100.0)
    assert quota.record("u", "c", 2000) == 10_000
    quota.set_limit("u", None, 1000.0)
    assert quota.record("u", "other", 0) == 0
    quota.set_limit("u", None, None)
    assert quota.is_active
    assert quota.record("u", "c", 10**9) == 0


def test_clients_that_have_gone_are_forgotten_with_their_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota, "MAX_SHARES", 3)
    clock, metrics = ManualClock(), MetricsRegistry()
    quota = quota_of(clock, metrics)
    quota.set_limit(None, DEFAULT, 1.0)
    for number in range(10):
        quota.record("u", f"c{number}", 1)
    assert len(metrics) == 3 * GAUGES
    clock.advance(client_quota.EXPIRY_MS)
    quota.record("u", "last", 1)
    assert len(metrics) == GAUGES


class Tenants:
    """Clients of one tenant share a quota."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self.told: list[tuple[object, ...]] = []

    def limit(self, kind: str, user: str, client_id: str) -> tuple[str, float] | None:
        if user == "broken":
            raise SystemExit("as bad as any other error")
        return (user.partition("/")[0], 100.0) if kind == "Produce" else None

    def update(self, *told: object) -> None:
        self.told.append(told)


def test_limits_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_quotas")
    module.Tenants = Tenants  # type: ignore[attr-defined]
    module.Nothing = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_quotas", module)
    first: list[bool] = []

    def made(name: str) -> Quotas:
        config = KafkaConfig({**BASE, "client.quota.callback.class": name})
        return Quotas(config, ManualClock(), MetricsRegistry(), lambda: first.append(True), lambda *_: None)

    quotas = made("own_quotas:Tenants")
    assert first == [True]
    assert quotas.produce.record("t%2Fa", "c", 1000) == 0
    assert quotas.produce.record("t%2Fb", "d", 1000) == 10_000, "one tenant, one counter"
    assert quotas.produce.record("other%2Fb", "d", 1000) == 0
    assert quotas.fetch.record("t%2Fa", "c", 10**9) == 0
    quotas.on_user("broken", {"producer_byte_rate": "1000"})
    assert quotas.produce.record("broken", "c", 20_000) == 10_000, "what ZooKeeper says holds"
    quotas.close()
    for name in ("own_quotas:Nothing", "own_quotas:Missing", "no_such_module:Class"):
        with pytest.raises(ConfigError, match="cannot be used"):
            made(name)
    with pytest.raises(ConfigError, match="cannot be honoured"):
        made("java.lang.Object")


def test_znodes_become_quotas() -> None:
    config = KafkaConfig(BASE)
    first: list[bool] = []
    rates: dict[str | None, float | None] = {}
    quotas = Quotas(config, ManualClock(), MetricsRegistry(), lambda: first.append(True), rates.__setitem__)
    quotas.on_user("al%20ice", {"SCRAM-SHA-256": "x"})
    quotas.on_client("c", {})
    assert not first
    assert not quotas.is_active
    quotas.on_user("al%20ice/clients/c", {"producer_byte_rate": "10", "request_percentage": "2.5"})
    quotas.on_user(DEFAULT, {"consumer_byte_rate": "1.0E8"})
    assert first == [True]
    produce, fetch = quotas.produce.limits.of("al%20ice", "c"), quotas.fetch.limits.of("bob", "c")
    assert produce is not None
    assert produce.limit == 10
    assert fetch is not None
    assert fetch.limit == 1e8
    quotas.on_client("d", {"controller_mutation_rate": "not a number"})
    assert quotas.mutation.limits.is_empty
    quotas.on_ip(DEFAULT, {"connection_creation_rate": "5"})
    quotas.on_ip("127.0.0.1", {})
    assert rates == {None: 5.0, "127.0.0.1": None}


def test_an_address_may_be_written_in_many_ways() -> None:
    rates: dict[str | None, float | None] = {}
    quotas = Quotas(KafkaConfig(BASE), ManualClock(), MetricsRegistry(), lambda: None, rates.__setitem__)
    quotas.on_ip("2001%3Adb8%3A0%3A0%3A0%3A0%3A0%3A1", {"connection_creation_rate": "5"})
    assert rates == {"2001:db8::1": 5.0}
    quotas.on_ip("2001%3Adb8%3A0%3A0%3A0%3A0%3A0%3A1", {})
    assert rates == {"2001:db8::1": None}
