"""Metrics after the same load: Apache Kafka's by JMX, Odradek's as Prometheus scrapes them.

`docs/metrics.md` is made from the same two brokers; ODRADEK_WRITE_DOCS=1 writes it anew.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.dev.processes import free_ports
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support import wire
from tests.support.cluster import HOST, Broker, Cluster
from tests.support.mbeans import MBean, Sample, read_mbeans, show_by_jmx
from tests.support.metrics_page import metrics_page, reason_for_none
from tests.support.paths import ROOT

TOPIC = "load"
PAGE = ROOT / "docs" / "metrics.md"
BATCH = 10
PRODUCED, FETCHED, COMMITTED = 7, 5, 3

# Equal on both kinds after the load, whatever the labels (but for those of a topic that differ by the coordinator).
EXACT = (
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_insyncreplicascount",
    "kafka_cluster_partition_laststableoffsetlag",
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_underreplicated",
    "kafka_controller_kafkacontroller_activebrokercount",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_controllerstate",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_coordinator_group_groupmetadatamanager_numgroups",
    "kafka_coordinator_group_groupmetadatamanager_numgroupsempty",
    "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "kafka_log_log_logendoffset",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_numlogsegments",
    "kafka_log_log_size",
    "kafka_network_requestmetrics_requestbytes_count",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems_count",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_bytesrejected_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_group_coordinator_metrics_offset_commit_count",
    "kafka_server_kafkaserver_brokerstate",
    "kafka_server_metadataloader_currentcontrollerid",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
)
# What the expressions of Strimzi's Grafana dashboard for Kafka name, but for the JVM's own.
DASHBOARD = (
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_log_log_size",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_socket_server_metrics_connection_count",
    "process_open_fds",
)
# Of the request metrics those of the load; how often a client asks for metadata is its own affair.
REQUESTS = ("Produce", "FetchConsumer", "Fetch", "OffsetCommit")


def load(cluster: Cluster) -> None:
    """Seven batches of ten records, produced, read, and committed; and one to a topic that there can't be."""
    broker = cluster.brokers[0]
    wire.create_topic(cluster, TOPIC)
    for _ in range(PRODUCED):
        wire.produce(broker, TOPIC, wire.batch([b"x" * 100] * BATCH))
    for _ in range(FETCHED):
        wire.fetch(broker, TOPIC, 0)
    wire.produce(broker, "no topic's name", wire.batch([b"v"]))
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")],
            )
        ],
    )
    with cluster.client() as client:
        for _ in range(COMMITTED):
            client.call_coordinator("g", 0, commit)


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def mbeans(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> list[MBean]:
    """Kafka's, after the load."""
    cluster = Cluster(["kafka"], tmp_path_factory.mktemp("kafka"), f"{zookeeper}/metrics-kafka")
    port = show_by_jmx(cluster.brokers[0])
    try:
        cluster.start()
        load(cluster)
        return read_mbeans(port)
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def odradek(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, int]]:
    """A broker after the load, and its HTTP port."""
    (port,) = free_ports(1)
    settings = {"odradek.http.port": str(port)}
    cluster = Cluster(["odradek"], tmp_path_factory.mktemp("odradek"), f"{zookeeper}/metrics-odradek", settings)
    try:
        cluster.start()
        load(cluster)
        yield cluster.brokers[0], port
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def page(odradek: tuple[Broker, int]) -> str:
    """What Prometheus scrapes, once everything that the load did has been counted."""
    wanted = f'kafka_network_requestmetrics_totaltimems_count{{request="OffsetCommit"}} {COMMITTED}.0\n'
    for _ in range(50):
        text = get(odradek[1], "/metrics")
        if wanted in text:
            return text
        wire.pause(0.1)
    raise AssertionError(f"the page has no line {wanted}")


def samples(page: str) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def is_of_load(sample: Sample) -> bool:
    labels = dict(sample[1])
    return labels.get("request", "Produce") in REQUESTS


def test_values_equal_the_reference_s(mbeans: list[MBean], page: str) -> None:
    ours = samples(page)
    theirs = {sample: float(value) for bean in mbeans for sample, value in bean.samples() if sample[0] in EXACT}
    wanted = {sample: value for sample, value in theirs.items() if is_of_load(sample)}
    assert {sample[0] for sample in wanted} == set(EXACT)
    differ = {sample: (value, ours.get(sample)) for sample, value in wanted.items() if ours.get(sample) != value}
    assert differ == {}


def test_values_equal_what_was_sent(page: str) -> None:
    ours = samples(page)
    size = len(wire.batch([b"x" * 100] * BATCH)) * PRODUCED
    topic = frozenset({("topic", TOPIC)})
    assert ours["kafka_server_brokertopicmetrics_bytesin_total", topic] == size
    assert ours["kafka_server_brokertopicmetrics_bytesout_total", topic] == size * FETCHED
    assert ours["kafka_server_brokertopicmetrics_messagesin_total", topic] == PRODUCED * BATCH


def test_every_mbean_has_its_series_or_a_reason(mbeans: list[MBean], page: str) -> None:
    ours = {name for name, _ in samples(page)}
    missing = {
        (bean.pattern, name)
        for bean in mbeans
        for (name, _), _ in bean.samples()
        if name not in ours and reason_for_none(name) is None
    }
    assert missing == set()


def test_the_documentation_is_up_to_date(mbeans: list[MBean], page: str) -> None:
    made = metrics_page(mbeans, page)
    if os.environ.get("ODRADEK_WRITE_DOCS") == "1":
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made


def test_series_that_dashboards_ask_for(page: str) -> None:
    ours = {name for name, _ in samples(page)}
    assert [name for name in DASHBOARD if name not in ours] == []


def test_health_follows_the_broker(odradek: tuple[Broker, int]) -> None:
    _, port = odradek
    assert json.loads(get(port, "/health/live"))["status"] == "live"
    ready = json.loads(get(port, "/health/ready"))
    assert ready["status"] == "ready"
    assert set(ready["checks"].values()) == {"ok"}


def test_it_listens_on_loopback_only(odradek: tuple[Broker, int]) -> None:
    broker, port = odradek
    assert broker.process is not None
    listening = Path(f"/proc/{broker.process.pid}/net/tcp").read_text(encoding="utf-8")
    addresses = re.findall(rf"\b([0-9A-F]{{8}}):{port:04X} 00000000:0000 0A", listening)
    assert addresses == ["0100007F"]
