"""The dashboard of docker/monitoring shows real series: a Prometheus that scrapes a cluster is asked each query."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Producer

from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports
from tests.support.cluster import CLOCK, ROOT, Cluster, running_cluster

DOCKER = ROOT / "docker"
MONITORING = DOCKER / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "odradek.json"
PATIENCE_MS = 60_000


def queries() -> dict[str, str]:
    """Expressions by the panel that has them."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return {
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        for panel in panels
        for target in panel.get("targets", ())
    }


def test_the_dashboard_is_what_its_program_makes() -> None:
    """Else: python docker/monitoring/dashboard.py > docker/monitoring/grafana/dashboards/odradek.json"""
    done = subprocess.run(
        [sys.executable, str(MONITORING / "dashboard.py")], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == DASHBOARD.read_text(encoding="utf-8")


class Load:
    """Records in and out all the time, in a group, and a request that fails."""

    def __init__(self, cluster: Cluster) -> None:
        self._over = threading.Event()
        self._cluster = cluster
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        servers = {"bootstrap.servers": self._cluster.bootstrap}
        producer = Producer({**servers, "acks": "all", "message.max.bytes": "2000000"})
        consumer = Consumer({**servers, "group.id": "dashboard", "auto.offset.reset": "earliest"})
        consumer.subscribe(["shown"])
        try:
            while not self._over.is_set():
                producer.produce("shown", b"x" * 100)
                producer.produce("shown", b"x" * 1_500_000, on_delivery=_must_be_too_large)
                producer.poll(0)
                consumer.poll(0.1)
        finally:
            producer.flush(30)
            consumer.close()


def _must_be_too_large(error: KafkaError | None, _: object) -> None:
    assert error is not None


@pytest.fixture(scope="module")
def prometheus(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one that scrapes three brokers under load."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed; on Debian: apt-get install prometheus")
    directory = tmp_path_factory.mktemp("monitoring")
    *http, port = free_ports(4)
    with running_cluster(
        ["odradek"] * 3,
        directory,
        f"{zookeeper}/monitoring",
        {},
        {broker: {"odradek.http.port": str(each)} for broker, each in enumerate(http)},
    ) as cluster:
        config = _config(http)
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            program,
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with Load(cluster):
            server = ManagedProcess("prometheus", command, directory / "prometheus.log", directory=directory)
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                server.stop(10)


def _config(ports: list[int]) -> dict[str, Any]:
    """The file of the compose cluster, for brokers of this machine, and faster."""
    config: dict[str, Any] = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"]["scrape_interval"] = "1s"
    [job] = config["scrape_configs"]
    assert job["job_name"] == "odradek"
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    return config


def ask(address: str, query: str) -> list[Any]:
    """What an instant query finds; nothing while the server does not answer."""
    expression = query.replace("$__rate_interval", "30s").replace("$request", "Produce|Fetch")
    try:
        with urlopen(f"{address}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
            found = json.load(answer)
    except OSError:
        return []
    assert found["status"] == "success", found
    return list(found["data"]["result"])


def test_every_panel_shows_something(prometheus: str) -> None:
    empty = queries()

    def asked() -> bool:
        for name, query in list(empty.items()):
            if any(value["value"][1] != "NaN" for value in ask(prometheus, query)):
                del empty[name]
        return not empty

    assert wait_until(asked, CLOCK, PATIENCE_MS, 1_000), empty
    [brokers] = ask(prometheus, queries()["Brokers: __auto"])
    assert brokers["value"][1] == "3"


def test_compose_takes_the_files(tmp_path: Path) -> None:
    """Names of images and ports are in docker/.env, and every file that is mounted is there."""
    environment = dict(
        line.split("=", 1) for line in (DOCKER / ".env").read_text().splitlines() if line and line[0] != "#"
    )
    services = yaml.safe_load((DOCKER / "docker-compose.monitoring.yml").read_text())["services"]
    for name in ("prometheus", "grafana"):
        assert services[name]["image"].strip("${}") in environment
        for volume in services[name]["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DOCKER / source).exists()
        [port] = services[name]["ports"]
        assert port.startswith("127.0.0.1:")
