"""Log lines of a running broker: files, levels at run time, a client's bad input, secrets. Odradek's own."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from log.records.batch import RecordBatch
from log.records.compression import Codec
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Cluster

BROKER, LOGGER = 4, 8
SECRET = "hunter2-hunter2"
FILES = {
    "controller.log",
    "kafka-authorizer.log",
    "kafka-request.log",
    "log-cleaner.log",
    "server.log",
    "state-change.log",
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory, logs: Path) -> Iterator[Cluster]:
    settings = {"odradek.log.dir": str(logs), "odradek.log.format": "json"}
    made = Cluster(["odradek"], tmp_path_factory.mktemp("logging"), f"{zookeeper}/logging", settings)
    beside = made.brokers[0].directory  # of its server.properties
    beside.mkdir()
    (beside / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, stdout\nlog4j.logger.kafka.controller=DEBUG, controllerAppender\n"
    )
    try:
        made.start()
        wire.create_topic(made, "t")
        yield made
    finally:
        made.stop()


def lines(logs: Path, file: str) -> list[dict[str, str]]:
    """Every line is one JSON object."""
    return [json.loads(line) for line in (logs / file).read_text(encoding="utf-8").splitlines()]


def wait_for_line(logs: Path, file: str, text: str) -> dict[str, str]:
    for _ in range(100):
        found = [line for line in lines(logs, file) if text in line["message"]]
        if found:
            return found[-1]
        wire.pause(0.1)
    raise AssertionError(f"{file} has no line with {text!r}")


def set_configs(cluster: Cluster, kind: int, *, broker: str = "0", **values: str) -> int:
    configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=broker, configs=configs)
    (answer,) = wire.call(cluster.brokers[0], IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return int(answer.error_code)


def test_what_happens_is_written_to_the_file_it_belongs_to(cluster: Cluster, logs: Path) -> None:
    assert {path.name for path in logs.iterdir()} == FILES
    wait_for_line(logs, "server.log", "levels of loggers are those of")
    assert {line["logger"].split(".")[0] for line in lines(logs, "controller.log")} == {"controller"}
    assert all(not line["logger"].startswith("controller") for line in lines(logs, "server.log"))


def test_levels_of_a_log4j_file_hold_from_the_start(cluster: Cluster) -> None:
    for name, wanted in (("kafka.controller", "DEBUG"), ("kafka.server.ReplicaManager", "INFO")):
        resource = DescribeConfigsResource(resource_type=LOGGER, resource_name="0", configuration_keys=[name])
        (answer,) = wire.call(cluster.brokers[0], DescribeConfigsRequest(resources=[resource]), 4).results
        assert [entry.value for entry in answer.configs] == [wanted]


def test_the_request_log_is_turned_on_and_off_while_the_broker_runs(cluster: Cluster, logs: Path) -> None:
    assert lines(logs, "kafka-request.log") == []
    assert set_configs(cluster, LOGGER, kafka_request_logger="DEBUG") == 0
    for _ in range(100):
        wire.produce(cluster.brokers[0], "t", wire.batch([b"v"]))
        if any('"requestApiKeyName":"PRODUCE"' in line["message"] for line in lines(logs, "kafka-request.log")):
            break
        wire.pause(0.1)
    line = wait_for_line(logs, "kafka-request.log", '"requestApiKeyName":"PRODUCE"')
    found = json.loads(line["message"].removeprefix("Completed request:"))
    assert found["errors"] == {"NONE": 1}
    assert found["requestHeader"]["clientId"] == "contract"
    assert "request" not in found
    assert set_configs(cluster, LOGGER, kafka_request_logger="WARN") == 0


def test_no_secret_is_written_at_any_level(cluster: Cluster, logs: Path) -> None:
    assert set_configs(cluster, LOGGER, root="TRACE", kafka_request_logger="TRACE") == 0
    name = "listener_name_plaintext_ssl_keystore_password"
    refused_or_not = set_configs(cluster, BROKER, **{name: SECRET})
    wait_for_line(logs, "kafka-request.log", '"requestApiKeyName":"INCREMENTAL_ALTER_CONFIGS"')
    wait_for_line(logs, "kafka-request.log", "(hidden)")
    if refused_or_not == 0:
        wait_for_line(logs, "server.log", "listener.name.plaintext.ssl.keystore.password")
    assert set_configs(cluster, LOGGER, root="INFO", kafka_request_logger="WARN") == 0
    for path in logs.iterdir():
        assert SECRET not in path.read_text(encoding="utf-8"), path


def test_bad_input_of_a_client_is_one_line_without_a_stack_trace(cluster: Cluster, logs: Path) -> None:
    broker = cluster.brokers[0]
    packed = wire.batch([b"v" * 100], codec=Codec.GZIP)
    packed[70:80] = bytes(10)
    packed[17:21] = RecordBatch(packed).compute_crc().to_bytes(4, "big")
    assert wire.produce(broker, "t", packed).error_code != 0
    garbage = {
        "no such api": struct.pack(">hhih", 9999, 0, 1, -1),
        "no such version": struct.pack(">hhih", 0, 999, 1, -1),
        "an unreadable body": struct.pack(">hhih", 0, 7, 1, -1) + b"\xff" * 20,
        "no header": b"\x00",
    }
    for frame in garbage.values():
        with socket.create_connection((HOST, broker.port), timeout=30) as client:
            client.sendall(struct.pack(">i", len(frame)) + frame)
            assert client.recv(1) == b""
    with socket.create_connection((HOST, broker.port), timeout=30) as client:
        client.sendall(b"\x7f\xff\xff\xffGET / HTTP/1.1")
        assert client.recv(1) == b""
    wait_for_line(logs, "server.log", "append to t-0 failed")
    written = [line for file in FILES for line in lines(logs, file)]
    assert [line for line in written if "exception" in line] == []


def test_a_wrong_log_directory_stops_the_start_in_one_line(zookeeper: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cluster = Cluster(
        ["odradek"], tmp_path / "broker", f"{zookeeper}/logging-wrong", {"odradek.log.dir": str(tmp_path / "file")}
    )
    broker = cluster.brokers[0]
    broker.start()
    process = broker.process
    assert process is not None
    assert wait_until(lambda: not process.is_running, CLOCK, 60_000)
    assert process.poll() == 2
    said = broker.log_tail()
    assert "odradek.log.dir: log files cannot be made in" in said
    assert "Traceback" not in said
