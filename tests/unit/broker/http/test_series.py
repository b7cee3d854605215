"""Names of series, against what the JMX exporter's example rules for Kafka make of the same MBeans."""

from __future__ import annotations

import pytest

from broker.http.series import series_of
from broker.metrics import Metric, MetricsRegistry


def lines(metrics: MetricsRegistry) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, metric in metrics.items():
        for series in series_of(key, metric):
            line = series.line.rstrip()
            assert line not in found
            found[line] = series.read()
    return found


def kinds(metrics: MetricsRegistry) -> set[str]:
    return {series.kind for key, metric in metrics.items() for series in series_of(key, metric)}


@pytest.mark.parametrize(
    ("group", "type_", "name", "tags", "line"),
    [
        (
            "kafka.controller",
            "KafkaController",
            "ActiveControllerCount",
            {},
            "kafka_controller_kafkacontroller_activecontrollercount",
        ),
        (
            "kafka.coordinator.group",
            "GroupMetadataManager",
            "NumGroups",
            {},
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
        ),
        (
            "kafka.cluster",
            "Partition",
            "UnderReplicated",
            {"topic": "t", "partition": "0"},
            'kafka_cluster_partition_underreplicated{topic="t",partition="0"}',
        ),
        (
            "kafka.log",
            "LogCleaner",
            "max-clean-time-secs",
            {},
            "kafka_log_logcleaner_max_clean_time_secs",
        ),
        (
            "kafka.server",
            "DelayedOperationPurgatory",
            "PurgatorySize",
            {"delayedOperation": "Fetch"},
            'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}',
        ),
        (
            "kafka.controller",
            "ControllerChannelManager",
            "QueueSize",
            {"broker_id": "1"},
            'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"}',
        ),
    ],
)
def test_gauges(group: str, type_: str, name: str, tags: dict[str, str], line: str) -> None:
    metrics = MetricsRegistry()
    metrics.gauge(group, type_, name, lambda: 7, **tags)
    assert lines(metrics) == {line: 7}
    assert kinds(metrics) == {"gauge"}


def test_rates_are_counters() -> None:
    metrics = MetricsRegistry()
    metrics.meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", topic="t").mark(12)
    metrics.gauge("kafka.server", "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec", lambda: 3)
    assert lines(metrics) == {
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"}': 12,
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total": 3,
    }
    assert kinds(metrics) == {"counter"}


def test_shares_have_both_usual_names() -> None:
    metrics = MetricsRegistry()
    metrics.gauge("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent", lambda: 0.5)
    meter = metrics.meter("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
    meter.mark(4_000_000_000)  # idle nanoseconds of five seconds
    meter.tick()
    assert lines(metrics) == {
        "kafka_network_socketserver_networkprocessoravgidlepercent": 0.5,
        "kafka_network_socketserver_networkprocessoravgidle_percent": 0.5,
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent": pytest.approx(0.8),
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count": 4_000_000_000,
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": pytest.approx(0.8),
    }


def test_other_meters_have_a_count_and_a_rate() -> None:
    metrics = MetricsRegistry()
    meter = metrics.meter("kafka.server", "group-coordinator-metrics", "offset-commit")
    meter.mark(10)
    meter.tick()
    assert lines(metrics) == {
        "kafka_server_group_coordinator_metrics_offset_commit_count": 10,
        "kafka_server_group_coordinator_metrics_offset_commit_rate": 2,
    }


def test_histograms_are_summaries() -> None:
    metrics = MetricsRegistry()
    histogram = metrics.histogram("kafka.network", "RequestMetrics", "TotalTimeMs", request="Produce")
    for value in range(1001):
        histogram.update(value)
    base = "kafka_network_requestmetrics_totaltimems"
    assert lines(metrics) == {
        f'{base}{{request="Produce",quantile="0.5"}}': 500,
        f'{base}{{request="Produce",quantile="0.75"}}': 750,
        f'{base}{{request="Produce",quantile="0.95"}}': 950,
        f'{base}{{request="Produce",quantile="0.98"}}': 980,
        f'{base}{{request="Produce",quantile="0.99"}}': 990,
        f'{base}{{request="Produce",quantile="0.999"}}': 999,
        f'{base}_count{{request="Produce"}}': 1001,
        f'{base}_sum{{request="Produce"}}': 500500,
    }
    assert kinds(metrics) == {"summary"}


def test_a_histogram_of_a_bean_of_attributes_has_mean_and_maximum() -> None:
    metrics = MetricsRegistry()
    histogram = metrics.histogram("kafka.server", "group-coordinator-metrics", "partition-load-time")
    base = "kafka_server_group_coordinator_metrics_partition_load_time"
    assert lines(metrics) == {f"{base}_avg": 0, f"{base}_max": 0}
    for value in (2, 4):
        histogram.update(value)
    assert lines(metrics) == {f"{base}_avg": 3, f"{base}_max": 4}


def test_hostile_values_of_labels_are_escaped() -> None:
    metrics = MetricsRegistry()
    metrics.gauge("kafka.server", "app-info", "version", lambda: 1, id='a"b\\c\nd')
    assert lines(metrics) == {'kafka_server_app_info_version{id="a\\"b\\\\c\\nd"}': 1}


def test_a_metric_alone_decides_its_series() -> None:
    """Nothing is kept between two calls: a gauge that is replaced is read as the new one."""
    metrics = MetricsRegistry()
    values: list[Metric] = [lambda: 1, lambda: 2]
    for value in values:
        assert callable(value)
        metrics.gauge("g", "T", "N", value)
    assert lines(metrics) == {"g_t_n": 2}
