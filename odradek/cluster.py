"""`Cluster`: a real cluster on this machine, for as long as a block of a program runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from odradek.errors import ClusterError
from odradek.supervisor import Connection, SupervisorProcess

__all__ = ["Cluster", "ClusterError"]


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Cluster:
    """Brokers 0 to N-1 and their ZooKeeper, in processes of their own on the loopback interface.

    Use it as a context manager, plain or async, or call `start` and `stop`. When the program ends without `stop`,
    however it ends, the processes end too. Every method raises ClusterError when something goes wrong, with the end of
    the log that says why. Methods may be called from any thread.
    """

    def __init__(
        self,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        zookeeper: str = "embedded",
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        log_level: str = "INFO",
        security: str = "PLAINTEXT",
    ) -> None:
        """``config`` holds Kafka's keys, for all brokers; booleans may be Python's.

        ``zookeeper``: "embedded", "java" (a real one; needs Java and ZooKeeper's jars) or the ``host:port`` of one that
        runs. ``data_dir`` keeps the data. ``port`` is the first broker's, the others follow; 0 takes free ones.

        ``security``: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL", as Kafka has them; those with SSL need
        `odradek[security]`. With SASL there are users and ACLs: "admin" may do everything, "alice" writes to and
        creates topics, "bob" reads. `client_config` is what clients need.
        """
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if security not in _PROTOCOLS:
            raise ValueError(f"security is one of {', '.join(_PROTOCOLS)}, not {security!r}")
        self.brokers = brokers
        self._arguments = [f"--brokers={brokers}", f"--port={port}", f"--log-level={log_level}"]
        self._arguments += [f"--override={key}={_text(value)}" for key, value in (config or {}).items()]
        if data_dir is not None:
            self._arguments.append(f"--data-dir={os.path.abspath(data_dir)}")
        if security != _PROTOCOLS[0]:
            self._arguments.append(f"--security={security}")
        if zookeeper == "java":
            self._arguments.append("--java")
        elif zookeeper != "embedded":
            self._arguments.append(f"--zookeeper={zookeeper}")
        self._process: SupervisorProcess | None = None
        self._connection: Connection | None = None
        self._description: dict[str, Any] = {}

    # ------------------------------------------------------------------ from start to stop

    def start(self, timeout: float | None = None) -> Cluster:
        """Start everything; all brokers serve when this returns.

        ``timeout`` in seconds (60 without it) is for ZooKeeper and the brokers to serve; then all is stopped again.
        """
        if self._process is not None:
            raise ClusterError("the cluster has been started")
        limit = [] if timeout is None else [f"--ready-timeout-ms={max(0, int(timeout * 1000))}"]
        self._process = SupervisorProcess([*self._arguments, *limit])
        try:
            self._connection = Connection(self._process.address)
            self._description = self._connection.ask("describe")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything in order; nothing is left when this returns. Does nothing when nothing runs."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            process.stop()
        if connection is not None:
            connection.close()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    # ------------------------------------------------------------------ what it is

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,host:port``, as every client takes it."""
        return str(self._known("bootstrap"))

    @property
    def client_config(self) -> dict[str, str]:
        """The configuration of confluent-kafka (and of whatever else is built on librdkafka), `bootstrap.servers`
        included. Where there are users it is that of "admin", who may do everything."""
        return self.client_config_of(next(iter(self._known("clients"))))

    def client_config_of(self, user: str) -> dict[str, str]:
        """The same for one of the users "admin", "alice" and "bob"."""
        clients: dict[str, dict[str, str]] = self._known("clients")
        if user not in clients:
            raise ClusterError(f"there is no user {user}: the cluster has {', '.join(filter(None, clients)) or 'none'}")
        return dict(clients[user])

    @property
    def zookeeper_connect(self) -> str:
        """``host:port`` of ZooKeeper."""
        return str(self._known("zookeeper"))

    @property
    def directory(self) -> Path:
        """Where the data and the logs are."""
        return Path(str(self._known("directory")))

    def running(self) -> list[int]:
        """The brokers whose process runs, paused or not."""
        running: list[int] = self._ask("describe")["running"]
        return running

    def log_file(self, broker: int) -> Path:
        """The log of a broker."""
        self._check(broker)
        files: list[str] = self._description["logs"] if self._known("logs") else []
        return Path(files[broker])

    def logs(self, broker: int) -> str:
        """What a broker has logged so far."""
        path = self.log_file(broker)
        try:
            return path.read_text("utf-8", "replace")
        except OSError as error:
            raise ClusterError(f"the log of broker {broker} can't be read: {error}") from error

    # ------------------------------------------------------------------ what it does

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Every broker knows the topic, with a leader for each partition, when this returns.

        Without ``replication_factor`` it is 3, or as many as there are brokers. ``partitions`` -1: `num.partitions`.
        """
        self._ask(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config={key: _text(value) for key, value in (config or {}).items()},
        )

    def delete_topic(self, name: str) -> None:
        """No broker knows the topic any more when this returns."""
        self._ask("delete_topic", name=name)

    def kill(self, broker: int) -> None:
        """SIGKILL: the broker is gone at once; the others notice when its session ends (6 s, unless
        `zookeeper.session.timeout.ms` says otherwise)."""
        self._ask("kill", broker=self._check(broker))

    def pause(self, broker: int) -> None:
        """SIGSTOP: the broker stands still, with its connections open."""
        self._ask("pause", broker=self._check(broker))

    def resume(self, broker: int) -> None:
        """SIGCONT: a broker that was paused goes on."""
        self._ask("resume", broker=self._check(broker))

    def restart(self, broker: int) -> None:
        """Stop a broker in a controlled way if it runs, and start it; it serves again when this returns."""
        self._ask("restart", broker=self._check(broker))

    def _ask(self, do: str, **arguments: Any) -> Any:
        connection, process = self._connection, self._process
        if connection is None:
            raise ClusterError("the cluster does not run")
        try:
            return connection.ask(do, **arguments)
        except ClusterError as error:
            if process is None or process.is_running:
                raise
            with contextlib.suppress(ValueError):
                raise ClusterError(f"{error}: {process.errors()}") from None
            raise

    def _known(self, name: str) -> Any:
        if self._connection is None:
            raise ClusterError("the cluster does not run")
        return self._description[name]

    def _check(self, broker: int) -> int:
        if not 0 <= broker < self.brokers:
            raise ClusterError(f"there is no broker {broker}: the cluster has 0 to {self.brokers - 1}")
        return broker


def _text(value: object) -> str:
    """A value as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
