"""The pytest plugin in a project of somebody's, with modules of the same names as ours, with and without xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from tests.cluster.test_python_api import SHADOWS, processes_of
from tests.support.cluster import CLOCK, ROOT

pytest.importorskip("confluent_kafka")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    for name in SHADOWS:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("OURS = False\n")
    return directory


def run_pytest(project: Path, source: str, *arguments: str, passes: bool = True) -> str:
    (project / "test_it.py").write_text(source)
    installed = any(each.value == "odradek.pytest_plugin" for each in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "odradek.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-q", *arguments, "test_it.py"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))},
            "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)]),
            "TMPDIR": str(project),
        },
    )
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert wait_until(lambda: not processes_of(project), CLOCK, 20_000), processes_of(project)
    return done.stdout


ROUND_TRIP = """
import confluent_kafka
import log, timer, broker
import pytest

def round_trip(address, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.consume(1, timeout=30)[0].value() == b"one"
    consumer.close()

addresses = set()
"""


def test_fixtures_beside_modules_of_the_same_names(project: Path) -> None:
    source = (
        ROUND_TRIP
        + """
@pytest.mark.parametrize("number", range(3))
def test_topic(kafka, kafka_topic, number):
    assert not log.OURS
    assert kafka_topic.startswith("test_topic")
    assert kafka.client_config == {"bootstrap.servers": kafka.bootstrap_servers}
    round_trip(kafka.bootstrap_servers, kafka_topic)
    addresses.add(kafka.bootstrap_servers)
    assert len(addresses) == 1

@pytest.mark.kafka(brokers=2, config={"num.partitions": 5})
def test_marked(kafka):
    assert kafka.bootstrap_servers.count(":") == 2
    from confluent_kafka.admin import AdminClient, NewTopic
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("five")])["five"].result(30)
    assert len(admin.list_topics("five", timeout=30).topics["five"].partitions) == 5
    with pytest.raises(Exception, match="already exists"):
        kafka.create_topic("five")

@pytest.mark.kafka(brokers=2, config={"num.partitions": 5})
def test_marked_alike(kafka):
    kafka.delete_topic("five")

def test_deleted_by_the_test(kafka, kafka_topic):
    kafka.delete_topic(kafka_topic)
"""
    )
    assert "6 passed" in run_pytest(
        project, source.replace("import confluent_kafka\n", "import confluent_kafka.admin\n")
    )


def test_secured_brokers(project: Path) -> None:
    source = (
        ROUND_TRIP.replace('"bootstrap.servers": address', "**address")
        + """
from confluent_kafka.admin import AdminClient, NewTopic

def is_refused(config):
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient(config).list_topics(timeout=0.5)

@pytest.mark.kafka(brokers=2, security="SASL_SSL")
def test_sasl_ssl(kafka):
    kafka.create_topic("t", replication_factor=2)
    round_trip({**kafka.client_config, "acks": "all"}, "t")
    assert kafka.client_config["sasl.username"] == "admin"
    is_refused({"bootstrap.servers": kafka.bootstrap_servers})
    is_refused({**kafka.client_config, "sasl.password": "a guess"})
    reader = AdminClient(kafka.client_config_of("bob"))
    failed = reader.create_topics([NewTopic("of-bob")])["of-bob"].exception(30)
    assert failed.args[0].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED

@pytest.mark.kafka(security="SASL_PLAINTEXT", config={"num.partitions": 2})
def test_sasl_plaintext(kafka, kafka_topic):
    round_trip(kafka.client_config, kafka_topic)
    is_refused({"bootstrap.servers": kafka.bootstrap_servers})

@pytest.mark.kafka(brokers=1, security="SSL")
def test_ssl(kafka_cluster):
    kafka_cluster.create_topic("t")
    round_trip(kafka_cluster.client_config, "t")
    is_refused({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    with pytest.raises(Exception, match="no user bob: the cluster has none"):
        kafka_cluster.client_config_of("bob")
"""
    )
    assert "3 passed" in run_pytest(project, source)


def test_a_cluster_of_the_tests_own(project: Path) -> None:
    source = """
def test_kill(kafka_cluster):
    assert kafka_cluster.running() == [0, 1, 2]
    kafka_cluster.kill(1)
    assert kafka_cluster.running() == [0, 2]
"""
    assert "1 passed" in run_pytest(project, source)


def test_a_topic_has_the_partitions_of_the_marker(project: Path) -> None:
    source = """
import pytest
from confluent_kafka.admin import AdminClient

@pytest.mark.kafka(config={"num.partitions": 4})
def test_four(kafka, kafka_topic):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert len(admin.list_topics(kafka_topic, timeout=30).topics[kafka_topic].partitions) == 4
"""
    assert "1 passed" in run_pytest(project, source)


def test_workers_share_one_broker(project: Path) -> None:
    pytest.importorskip("xdist")
    source = (
        ROUND_TRIP
        + """
@pytest.mark.parametrize("number", range(6))
def test_topic(kafka, kafka_topic, number, worker_id):
    round_trip(kafka.bootstrap_servers, kafka_topic)
    with open("addresses", "a") as file:
        print(worker_id, kafka.bootstrap_servers, file=file)
"""
    )
    assert "6 passed" in run_pytest(project, source, "-n", "2", "-p", "xdist")
    lines = [line.split() for line in (project / "addresses").read_text().splitlines()]
    assert {worker for worker, _ in lines} == {"gw0", "gw1"}
    assert len({address for _, address in lines}) == 1


def test_the_log_of_a_failed_test_is_in_its_report(project: Path) -> None:
    source = """
def test_before(kafka):
    kafka.create_topic("of-the-first")

def test_failing(kafka):
    kafka.create_topic("of-the-second")
    assert False
"""
    shown = run_pytest(project, source, passes=False)
    _, _, section = shown.partition("log of Kafka broker 0")
    assert "of-the-second-0" in section
    assert "of-the-first-0" not in section
    assert "1 failed, 1 passed" in shown


def test_nothing_is_imported_when_unused(project: Path) -> None:
    source = """
import sys

def test_nothing():
    ours = [name for name in sys.modules if name.split(".")[0] in ("odradek", "kazoo", "network")]
    assert sorted(ours) == ["odradek", "odradek.pytest_plugin"]
"""
    assert "1 passed" in run_pytest(project, source)


def test_options_and_what_is_wrong_with_a_marker(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\nkafka_log_level = ERROR\nkafka_data_dir = kept\n")
    quiet = """
def test_quiet(kafka):
    assert kafka.logs(0) == ""
"""
    assert "1 passed" in run_pytest(project, quiet)
    assert (project / "kept" / "kafka" / "broker-0" / "data" / "meta.properties").exists()
    shown = run_pytest(project, "def test_loud(kafka):\n    assert 'INFO' in kafka.logs(0)\n", "--kafka-log-level=INFO")
    assert "1 passed" in shown
    wrong = "import pytest\n\n@pytest.mark.kafka(broker=2)\ndef test_it(kafka):\n    pass\n"
    assert "takes brokers=..., config=... and security=..., not broker" in run_pytest(project, wrong, passes=False)
    unknown = wrong.replace("broker=2", "security='TLS'")
    assert "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'" in run_pytest(project, unknown, passes=False)


def test_a_suite_that_was_written_for_containers(project: Path) -> None:
    source = (
        ROUND_TRIP.replace('"bootstrap.servers": address', "**address")
        + """
import pytest
from confluent_kafka.admin import AdminClient
from odradek import ClusterError
from odradek.testing import KafkaContainer

def test_container():
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", "3") as kafka:
        address = kafka.get_bootstrap_server()
        assert address == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(kafka.port)}"
        round_trip({"bootstrap.servers": address}, "made-by-its-use")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g"})
        assert len(consumer.list_topics("made-by-its-use", timeout=30).topics["made-by-its-use"].partitions) == 3
        consumer.close()
    with KafkaContainer(security="SASL_SSL") as kafka:
        round_trip(kafka.get_client_config(), "secured")
        assert kafka.get_client_config()["bootstrap.servers"] == kafka.get_bootstrap_server()
        assert kafka.get_client_config("bob")["sasl.username"] == "bob"
        with pytest.raises(confluent_kafka.KafkaException):
            AdminClient({"bootstrap.servers": kafka.get_bootstrap_server()}).list_topics(timeout=0.5)
    container = KafkaContainer()
    with pytest.raises(ClusterError, match="did not come up within 0.001 s"):
        container.start(timeout=0.001)
    container.stop()
"""
    )
    assert "1 passed" in run_pytest(project, source)
