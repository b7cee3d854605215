"""For suites that were written for containers: `KafkaContainer`, with the methods of testcontainers' Kafka module.

    from odradek.testing import KafkaContainer    # was: from testcontainers.kafka import KafkaContainer

    with KafkaContainer() as kafka:
        kafka.get_bootstrap_server()

No Docker is needed. What only a container has (images, volumes, networks) is taken and has no effect.
``KafkaContainer(security="SASL_SSL")`` has TLS, users and ACLs as `Cluster` has them.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from odradek.cluster import Cluster

__all__ = ["KafkaContainer"]

_PREFIX = "KAFKA_"
# Where a container's broker listens, which mode it runs in, and how its JVM does.
_NOT_OURS = (
    "KAFKA_ADVERTISED_",
    "KAFKA_BROKER_ID",
    "KAFKA_CONTROLLER_",
    "KAFKA_HEAP_",
    "KAFKA_INTER_BROKER_",
    "KAFKA_JMX_",
    "KAFKA_JVM_",
    "KAFKA_LISTENER",
    "KAFKA_LOG4J_",
    "KAFKA_LOG_DIRS",
    "KAFKA_NODE_ID",
    "KAFKA_OPTS",
    "KAFKA_PROCESS_",
    "KAFKA_ZOOKEEPER_",
)


class KafkaContainer:
    """One broker. Settings come as a container's environment: ``with_env("KAFKA_NUM_PARTITIONS", "3")``."""

    def __init__(self, image: str = "odradek", port: int = 9093, **kwargs: Any) -> None:
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self._security = str(kwargs.get("security", "PLAINTEXT"))
        self._cluster: Cluster | None = None
        for name, value in (kwargs.get("env") or {}).items():
            self.with_env(name, value)

    # ------------------------------------------------------------------ before the start

    def with_env(self, key: str, value: object) -> KafkaContainer:
        """A setting of the broker."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: object) -> KafkaContainer:
        """Several settings."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_kraft(self) -> KafkaContainer:
        """No effect: clients can't tell."""
        return self

    def with_cluster_id(self, cluster_id: str) -> KafkaContainer:
        """No effect: the cluster makes an id of its own."""
        return self

    def with_name(self, name: str) -> KafkaContainer:
        """No effect."""
        return self

    def with_command(self, command: object) -> KafkaContainer:
        """No effect."""
        return self

    def with_exposed_ports(self, *ports: object) -> KafkaContainer:
        """No effect: the broker listens on a free port of the loopback interface."""
        return self

    def with_bind_ports(self, container: object, host: object = None) -> KafkaContainer:
        """No effect, as above."""
        return self

    def with_volume_mapping(self, host: object, container: object, mode: str = "ro") -> KafkaContainer:
        """No effect."""
        return self

    def with_network(self, network: object) -> KafkaContainer:
        """No effect."""
        return self

    def with_network_aliases(self, *aliases: str) -> KafkaContainer:
        """No effect."""
        return self

    def with_kwargs(self, **kwargs: object) -> KafkaContainer:
        """No effect."""
        return self

    # ------------------------------------------------------------------ while it runs

    def start(self, timeout: float = 30) -> KafkaContainer:
        """The broker serves when this returns. Raises ClusterError when it does not within ``timeout`` seconds."""
        config = {
            key.removeprefix(_PREFIX).lower().replace("_", "."): value
            for key, value in self.env.items()
            if key.startswith(_PREFIX) and not key.startswith(_NOT_OURS)
        }
        self._cluster = Cluster(config=config, security=self._security)
        self._cluster.start(timeout)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Nothing is left when this returns."""
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None

    def __enter__(self) -> KafkaContainer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def cluster(self) -> Cluster:
        """The cluster inside. Raises RuntimeError before `start`."""
        if self._cluster is None:
            raise RuntimeError("the container has not been started")
        return self._cluster

    def get_bootstrap_server(self) -> str:
        """``host:port``."""
        return self.cluster.bootstrap_servers

    def get_client_config(self, user: str | None = None) -> dict[str, str]:
        """What confluent-kafka needs, with ``security``; as a super user unless one is named."""
        return self.cluster.client_config if user is None else self.cluster.client_config_of(user)

    def get_container_host_ip(self) -> str:
        """The host of `get_bootstrap_server`."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """The port of `get_bootstrap_server`."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """What the broker has logged, as a container's standard output and error."""
        return b"", self.cluster.logs(0).encode()
