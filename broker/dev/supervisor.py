"""One local cluster from its start to its end: what runs, what has ended by itself, what is started again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.errors import CommandError
from broker.dev.cluster import HOST, READY_TIMEOUT_MS, DevBroker, DevCluster
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.dev.restarts import Restarts
from broker.dev.zookeeper import DevZooKeeper, EmbeddedZooKeeper, ZooKeeperServer
from timer.clock import Clock

if TYPE_CHECKING:
    from broker.dev.security import DevSecurity

EMBEDDED = "embedded"
JAVA = "java"
DEFAULT = EMBEDDED
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAINTEXT, *_, SECURE = PROTOCOLS
# How long a broker may take that is started again: as long as it waits for the end of its old session, and a little.
RESTART_TIMEOUT_MS = 60_000
_LOOK_MS = 20


@dataclass(frozen=True)
class Plan:
    """What is to run. ``zookeeper`` is `EMBEDDED`, `JAVA` or the ``host:port`` of one that runs already."""

    ports: list[int]
    directory: Path
    zookeeper: str = DEFAULT
    keeps_data: bool = False
    restarts: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "INFO"
    # One of `PROTOCOLS`.
    security: str = PLAINTEXT
    # From the start until all brokers serve.
    ready_timeout_ms: int = READY_TIMEOUT_MS
    # Where each broker serves its console; without ports none does.
    console_ports: list[int] = field(default_factory=list)


class Supervisor:
    """``tell`` is given what a person should know, a line or more at a time."""

    def __init__(self, plan: Plan, clock: Clock, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._clock = clock
        self._tell = tell
        self._zookeeper: DevZooKeeper | None = None
        self._cluster: DevCluster | None = None
        self._security: DevSecurity | None = None
        self._restarts: dict[int, Restarts] = {}
        # Brokers that have been stopped on purpose, or whose end has been told.
        self._down: set[int] = set()

    @property
    def cluster(self) -> DevCluster:
        """Raises CommandError before `start`."""
        if self._cluster is None:
            raise CommandError("the cluster has not been started")
        return self._cluster

    @property
    def zookeeper_connect(self) -> str:
        """``host:port``."""
        return self._plan.zookeeper if self._zookeeper is None else self._zookeeper.connect

    @property
    def security(self) -> DevSecurity | None:
        """What clients need to know, from the start on; None for plain text."""
        return self._security

    # ------------------------------------------------------------------ start and stop

    def start(self, goes_on: Callable[[], bool]) -> bool:
        """Start everything and wait until it serves; False when ``goes_on`` says that it is not wanted any more.

        Raises CommandError with the end of a log when a process ends, or when the time is over.
        """
        plan = self._plan
        deadline_ms = self._clock.monotonic_ms() + plan.ready_timeout_ms
        connect = self._start_zookeeper(goes_on)
        self._security = self._prepare_security()
        self._cluster = DevCluster(
            plan.ports,
            plan.directory,
            connect,
            self._clock,
            plan.settings,
            log_level=plan.log_level,
            security=self._security,
            console_ports=plan.console_ports,
        )
        if not goes_on():
            return False
        for broker in self._cluster.brokers:
            self._restarts[broker.broker_id] = Restarts()
            self._start(broker)

        def serves() -> bool:
            return (self._zookeeper is None or self._zookeeper.is_ready()) and self.cluster.serves()

        self._wait(serves, goes_on, deadline_ms)
        if self._security is not None and self._security.has_users and goes_on():
            from broker.dev.users import make_users

            self._wait(make_users(self.cluster, self._security, self._clock), goes_on, deadline_ms)
        return goes_on()

    def _wait(self, condition: Callable[[], bool], goes_on: Callable[[], bool], deadline_ms: int) -> None:
        """Also no longer than the cluster is wanted. Raises CommandError."""

        def ready() -> bool:
            self.cluster.check()
            return not goes_on() or condition()

        if not wait_until(ready, self._clock, max(0, deadline_ms - self._clock.monotonic_ms()), _LOOK_MS):
            limit_s = self._plan.ready_timeout_ms / 1000
            raise CommandError(f"the cluster did not come up within {limit_s:g} s: {self.cluster.bootstrap}")

    def _prepare_security(self) -> DevSecurity | None:
        plan = self._plan
        if plan.security == PLAINTEXT:
            return None
        from broker.dev.security import prepare

        bootstrap = ",".join(f"{HOST}:{port}" for port in plan.ports)
        return prepare(plan.security, plan.directory, len(plan.ports), bootstrap, self._clock)

    def _start_zookeeper(self, goes_on: Callable[[], bool]) -> str:
        """Brokers find the embedded server by trying again; a JVM takes so long that they are better started after."""
        plan = self._plan
        directory = plan.directory / "zookeeper"
        if plan.zookeeper == JAVA:
            server = ZooKeeperServer(directory, self._free_port())
            self._zookeeper = server
            if not wait_until(lambda: not goes_on() or server.is_ready(), self._clock, plan.ready_timeout_ms):
                raise CommandError(f"ZooKeeper did not answer on {server.connect}:\n{server.process.log_tail()}")
        elif plan.zookeeper == EMBEDDED:
            data = directory if plan.keeps_data else None
            log_file = plan.directory / "zookeeper.log"
            self._zookeeper = EmbeddedZooKeeper(data, self._free_port(), log_file)
        return self.zookeeper_connect

    def _free_port(self) -> int:
        """One that no broker is going to have."""
        return next(port for port in free_ports(len(self._plan.ports) + 1) if port not in self._plan.ports)

    def stop(self, *, at_once: bool = False) -> None:
        """Brokers in order, then ZooKeeper; ``at_once`` kills them."""
        cluster, zookeeper = self._cluster, self._zookeeper
        if cluster is not None:
            if at_once:
                for broker in cluster.brokers:
                    broker.kill()
            cluster.stop()
        if zookeeper is not None:
            if at_once:
                zookeeper.process.kill()
            zookeeper.stop()

    # ------------------------------------------------------------------ what ends by itself

    def look(self) -> None:
        """Tell of brokers that have ended, and start them again where the plan says so.

        Raises CommandError when ZooKeeper has ended.
        """
        zookeeper = self._zookeeper
        if zookeeper is not None and not zookeeper.process.is_running:
            raise CommandError(f"ZooKeeper ended by itself:\n{zookeeper.process.log_tail()}")
        now = self._clock.monotonic_ms()
        for broker in self.cluster.brokers:
            restarts = self._restarts[broker.broker_id]
            if restarts.is_due(now):
                self._tell(f"broker {broker.broker_id} is started again")
                self._start(broker)
            elif not restarts.is_waiting and broker.broker_id not in self._down:
                self._look_at(broker, restarts, now)

    def _look_at(self, broker: DevBroker, restarts: Restarts, now_ms: int) -> None:
        failure = broker.failure()
        if failure is None:
            return
        self._tell(failure)
        if self._plan.restarts:
            delay = restarts.on_end(now_ms)
            self._tell(f"broker {broker.broker_id} will be started again " + (f"in {delay} ms" if delay else "at once"))
        else:
            self._down.add(broker.broker_id)
            left = sum(each.is_running for each in self.cluster.brokers)
            self._tell(f"{left} of {len(self.cluster.brokers)} brokers go on without it; --restart starts it again")

    @property
    def is_over(self) -> bool:
        """Whether no broker runs, and none will be started again."""
        waits = any(each.is_waiting for each in self._restarts.values())
        return not waits and not any(broker.is_running for broker in self.cluster.brokers)

    def _start(self, broker: DevBroker) -> None:
        self._restarts[broker.broker_id].on_start(self._clock.monotonic_ms())
        self._down.discard(broker.broker_id)
        broker.start()

    # ------------------------------------------------------------------ what somebody asks for

    def kill(self, broker_id: int) -> None:
        """SIGKILL. It stays down until `restart`."""
        broker = self.cluster.broker(broker_id)
        self._down.add(broker_id)
        broker.kill()

    def pause(self, broker_id: int) -> None:
        """SIGSTOP; it stands still when this returns. Raises CommandError when it does not run."""
        broker = self.cluster.broker(broker_id)
        broker.pause()
        wait_until(broker.stands_still, self._clock, 5_000, 1)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self.cluster.broker(broker_id).resume()

    def restart(self, broker_id: int) -> None:
        """A controlled shutdown if it runs, then a start; it serves with the others when this returns.

        Raises CommandError when it ends at start or the time is over.
        """
        broker = self.cluster.broker(broker_id)
        self._down.add(broker_id)
        broker.stop()
        self._start(broker)

        def ready() -> bool:
            failure = broker.failure()
            if failure is None:
                return self.cluster.serves()
            self._down.add(broker_id)
            raise CommandError(failure)

        if not wait_until(ready, self._clock, RESTART_TIMEOUT_MS, _LOOK_MS):
            raise CommandError(f"broker {broker_id} does not serve {RESTART_TIMEOUT_MS // 1000} s after its start")
