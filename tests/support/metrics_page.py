"""`docs/metrics.md`: every MBean of Apache Kafka and its series here, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.support.mbeans import MBean

_CLIENT = "figures of the Java client's network selector; brokers here use another client"
_QUOTAS = "a connection that has to wait does so on its event loop: there is no queue, and exempt time is not counted"
# The first pattern that matches the name of a series says why there is none.
REASONS: tuple[tuple[str, str], ...] = (
    (r"kafka_kafka_log4jcontroller_.*", "no metric: log levels are read and set by the BROKER_LOGGER resource"),
    (r"kafka_server_(alter_partition|forwarding|replica_fetcher)_metrics_.*", _CLIENT),
    (r"kafka_server_(addpartitionsmanager|controller|txn_marker)_channel_metrics_.*", _CLIENT),
    (r"kafka_server_(fetch|produce|request|controllermutation)_(queue_size|exempt_request_time)", _QUOTAS),
    (r"kafka_server_socket_server_metrics_.*(authentication|reauth).*", "totals alone are counted"),
    (r"kafka_server_socket_server_metrics_.*", "measured by Kafka's selector; the processors here have other figures"),
    (r"kafka_server_kafka_metrics_count_count", "one registry holds all; see `yammer-metrics-count`"),
    (r"kafka_server_app_info_(commit_?id|starttimems)", "a text, or the same as `start-time-ms`"),
    (r"kafka_server_sessionexpirelistener_sessionstate", "a text; the check `ZooKeeper` of `/health/ready` tells"),
    (r"kafka_server_sessionexpirelistener_zookeeper(readonlyconnects|saslauthentications)_total", "never happens here"),
    (r"kafka_server_delayedoperationpurgatory_.*", "purgatories of ACLs and of remote logs, which are not there"),
)


def reason_for_none(series: str) -> str | None:
    """Why a broker here has no such series; None where it has to have it."""
    return next((reason for pattern, reason in REASONS if re.fullmatch(pattern, series)), None)


def metrics_page(mbeans: Iterable[MBean], page: str) -> str:
    """The text of the document."""
    shown = set(re.findall(r"^([a-z_0-9]+)[ {]", page, re.MULTILINE))
    rows: dict[str, dict[str, None]] = {}
    for bean in mbeans:
        cells = rows.setdefault(bean.pattern, {})
        for (name, _), _ in bean.samples():
            cells[f"`{name}`" if name in shown else f"none: {reason_for_none(name)}"] = None
    table = "".join(f"| `{pattern}` | {', '.join(sorted(rows[pattern]))} |\n" for pattern in sorted(rows))
    return _HEAD + table


_HEAD = """\
# Metrics

With `odradek.http.port` set a broker serves `/metrics` for Prometheus, and for orchestrators `/health/live` and
`/health/ready`; on 127.0.0.1 unless `odradek.http.host` names another address. `odradek.metrics.partitions=false`
leaves out every series that has a label `partition`.

Series have the names and labels that the JMX exporter's example rules for Kafka (`kafka-2_0_0.yml`) make of Kafka's
MBeans; `...Percent` is also there as Strimzi's rules name it (`..._percent`). So dashboards made for Apache Kafka work
unchanged. Histograms are summaries with the quantiles 0.5, 0.75, 0.95, 0.98, 0.99 and 0.999, and have a `_sum`. Beside
them stand CPU, memory and descriptors of the process (`process_*`) and its garbage collector (`python_gc_*`).

Clients push their own metrics (KIP-714) to a broker with `odradek.client.telemetry.enable`, which shows them too:
docs/client-telemetry.md. Without that key the APIs are not served, as in Apache Kafka 3.9.1 in ZooKeeper mode.

The table has every MBean of Apache Kafka 3.9.1 in ZooKeeper mode after a small load. It is made by a test from two
running brokers (`tests/contract/test_metrics.py`).

| MBean | series |
|---|---|
"""
