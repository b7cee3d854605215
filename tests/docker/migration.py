"""`make cluster-migration-test`: what `make cluster-kafka` and then `make cluster-migration` do.

Not part of `make test`, for the time that it takes; the same without containers is
`tests/cluster/test_rolling_replacement.py`.
"""

from __future__ import annotations

import pytest

from network.version import VERSION
from tests.docker.engine import BASE_TAG, Engine
from tests.docker.stack import SERVICES, Stack, busy

pytestmark = pytest.mark.timeout(1200)
OURS = f"odradek-test:{VERSION}"


def test_from_kafka_by_way_of_a_mixed_cluster(docker: Engine, kafka_image: str) -> None:
    """Three brokers of Apache Kafka become ours where their data is, while one writes and one reads."""
    stack = Stack(
        docker,
        base_image=BASE_TAG,
        zookeeper_image="odradek-test-zookeeper:1",
        begins_with="docker-compose.kafka.yml",
        kafka_image=kafka_image,
    )
    try:
        stack.compose("up", "-d")
        stack.wait(3)
        stack.create_topic("moved")
        with busy(stack, "moved"):
            stack.replace("--own-data", "--broker", "0")
            images = {service: stack.inspect(service)["Config"]["Image"] for service in SERVICES}
            assert images == {"broker-0": OURS, "broker-1": kafka_image, "broker-2": kafka_image}
            stack.replace("--own-data", "--broker", "1", "--broker", "2")
        assert {stack.inspect(service)["Config"]["Image"] for service in SERVICES} == {OURS}
    finally:
        stack.down()
    assert stack.left_behind() == ""
