"""Metrics after the same load: Apache Kafka's by JMX, Odradek's as Prometheus scrapes them.

`docs/metrics.md` is made from the same two brokers; ODRADEK_WRITE_DOCS=1 writes it anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.dev.processes import free_ports
from log.records.batch import RecordBatch
from log.records.compression import Codec
from log.records.old_formats import encode_message
from network.protocol.api import API, ApiKey
from network.protocol.deprecated_versions import LAST_DEPRECATED
from network.protocol.message import Request
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support import wire
from tests.support.cluster import HOST, Broker, Cluster
from tests.support.error_cases import CASES, EMPTY, EXISTING, LIMITED
from tests.support.mbeans import MBean, Sample, read_mbeans, show_by_jmx
from tests.support.metrics_page import metrics_page, reason_for_none
from tests.support.paths import ROOT
from tests.support.transactions import transactional_producer

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
    "kafka_network_requestmetrics_deprecatedrequests_total",
    "kafka_network_requestmetrics_errors_total",
    "kafka_network_requestmetrics_messageconversionstimems_count",
    "kafka_network_requestmetrics_requestbytes_count",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_temporarymemorybytes_count",
    "kafka_network_requestmetrics_totaltimems_count",
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count",
    "kafka_server_addpartitionstotxnmanager_verificationtimems_count",
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_bytesrejected_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_fetchmessageconversions_total",
    "kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total",
    "kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total",
    "kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total",
    "kafka_server_brokertopicmetrics_producemessageconversions_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_group_coordinator_metrics_offset_commit_count",
    "kafka_server_kafkaserver_brokerstate",
    "kafka_server_metadataloader_currentcontrollerid",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    "kafka_server_replicamanager_produceridcount",
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
# Their errors are compared as well: what a single client asks once, well and badly.
ASKED = sorted({case.api for case in CASES} - {ApiKey.FIND_COORDINATOR, ApiKey.CREATE_TOPICS})
WRONG = [case for case in CASES if case.api in ASKED and not case.elsewhere]
# One for a topic that cannot be, those refused (one of them with acks=0), those converted, and one in a transaction.
OTHER_PRODUCES = 1 + 5 + 3 + 1
# Each API that has deprecated versions is asked in the last of them and in the next one.
ASKED_TWICE = Counter({API[key].name: 2 for key in LAST_DEPRECATED})
COMPACTED, OLD, PACKED = "compacted", "old", "packed"


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
    refused_records(cluster)
    converted_records(cluster)
    one_transaction(cluster)
    wrong_requests(cluster)
    deprecated_requests(cluster)


def refused_records(cluster: Cluster) -> None:
    """One batch for each counter of refused records."""
    broker = cluster.brokers[0]
    wire.create_topic(cluster, COMPACTED, configs={"cleanup.policy": "compact"})
    wire.produce(broker, COMPACTED, wire.batch([b"a", b"b", b"c"], keys=[None, b"k", None]))
    damaged = wire.batch([b"v"])
    damaged[-1] ^= 1
    wire.produce(broker, TOPIC, damaged)
    unnumbered = wire.batch([b"v"], producer_id=5, producer_epoch=0, base_sequence=-1)
    wire.produce(broker, TOPIC, unnumbered)
    short = wire.batch([b"v", b"v"])
    short[57:61] = (3).to_bytes(4, "big")  # the count of records
    short[17:21] = RecordBatch(short).compute_crc().to_bytes(4, "big")
    wire.produce(broker, TOPIC, short)
    # The connection is closed instead of an answer, but the error counts.
    with wire.connected(broker) as connection, contextlib.suppress(OSError):
        connection.call(wire.produce_request("nowhere", wire.batch([b"v"]), acks=0), wire.PRODUCE_VERSION, 2000)


def converted_records(cluster: Cluster) -> None:
    """Messages of an old format, a batch that the topic packs anew, and an old consumer."""
    broker = cluster.brokers[0]
    wire.create_topic(cluster, OLD)
    wire.create_topic(cluster, PACKED, configs={"compression.type": "gzip"})
    messages = [encode_message(1, 0, wire.now_ms(), b"k", b"v") for _ in range(3)]
    wire.produce(broker, OLD, b"".join(messages), version=2)
    wire.produce(broker, PACKED, wire.batch([b"v"] * 4))
    wire.produce(broker, OLD, wire.batch([b"v"] * 5, codec=Codec.GZIP))
    wire.fetch(broker, OLD, 0, version=2)


def one_transaction(cluster: Cluster) -> None:
    """Its partition is verified once, and its producer is known."""
    producer = transactional_producer(cluster.bootstrap, "t")
    producer.begin_transaction()
    producer.produce(OLD, b"in a transaction")
    producer.commit_transaction()


def wrong_requests(cluster: Cluster) -> None:
    """What the table of the error messages asks, once each."""
    for name, configs in ((EXISTING, {}), (EMPTY, {}), (LIMITED, {"max.message.bytes": "1000"})):
        wire.create_topic(cluster, name, configs=configs)
    for case in WRONG:
        version = min(case.last, API[case.api].max_version)
        wire.call(cluster.brokers[0], case.make(version), version)


def deprecated_requests(cluster: Cluster) -> None:
    """From a client that says who it is."""
    who = ApiVersionsRequest(client_software_name="contract-client", client_software_version="1.2")
    with wire.connected(cluster.brokers[0]) as connection:
        connection.call(who, 3)
        for key, last in LAST_DEPRECATED.items():
            for version in (last, last + 1):
                connection.call(some_request(key, version), version)


def some_request(api_key: int, version: int) -> Request:
    if api_key == ApiKey.PRODUCE:
        return wire.produce_request(OLD, wire.batch([b"v"]) if version > 2 else encode_message(1, 0, 0, None, b"v"))
    fitting = [case for case in WRONG if case.api == api_key and case.first <= version <= case.last]
    return fitting[0].make(version) if fitting else API[api_key].request()


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
    """What Prometheus scrapes, once everything that the load did has been counted: each thread of the network gives
    what it has counted to the metrics in its own time."""
    wanted = Counter(API[case.api].name for case in WRONG)
    wanted += Counter(Produce=PRODUCED + OTHER_PRODUCES, Fetch=FETCHED + 1, OffsetCommit=COMMITTED)
    wanted += ASKED_TWICE
    counted: Counter[str] = Counter()
    for _ in range(100):
        text = get(odradek[1], "/metrics")
        counted = Counter()
        for (name, labels), value in samples(text).items():
            if name == "kafka_network_requestmetrics_requests_total":
                counted[dict(labels)["request"]] += int(value)
        if all(counted[request] >= count for request, count in wanted.items()):
            return text
        wire.pause(0.1)
    raise AssertionError(f"counted are {counted}, sent were {wanted}")


def samples(page: str) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def is_of_load(sample: Sample) -> bool:
    name, labels = sample[0], dict(sample[1])
    if name == "kafka_server_brokertopicmetrics_bytesout_total" and labels.get("topic") in (None, OLD):
        # Records for an old consumer: Kafka counts the size that they have on disk, as long as its answer is.
        return False
    known = (*REQUESTS, *(API[key].name for key in ASKED)) if name.endswith("_errors_total") else REQUESTS
    if name.endswith("_deprecatedrequests_total"):
        return True
    return labels.get("request", "Produce") in known


def test_values_equal_the_reference_s(mbeans: list[MBean], page: str) -> None:
    ours = samples(page)
    theirs = {sample: float(value) for bean in mbeans for sample, value in bean.samples() if sample[0] in EXACT}
    wanted = {sample: value for sample, value in theirs.items() if is_of_load(sample)}
    assert {sample[0] for sample in wanted} == set(EXACT)
    differ = {sample: (value, ours.get(sample)) for sample, value in wanted.items() if ours.get(sample) != value}
    assert differ == {}
    deprecated = "kafka_network_requestmetrics_deprecatedrequests_total"
    assert {sample for sample in ours if sample[0] == deprecated} == {s for s in theirs if s[0] == deprecated}


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


def test_promtool_accepts_the_page(page: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert os.environ.get("ODRADEK_REQUIRE_REFERENCE") != "1", (
            "promtool is not installed: apt-get install prometheus"
        )
        pytest.skip("promtool is not installed")
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
    said = (checked.stdout + checked.stderr).splitlines()
    # Names stay Kafka's (`networkProcessor`, `connection-count`).
    kafka_s = ("should be written in 'snake_case'", 'should not have "_count" suffix', "contain abbreviated units")
    assert [line for line in said if not any(complaint in line for complaint in kafka_s)] == []
    assert checked.returncode in (0, 3)  # 3: it would have named something differently


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
