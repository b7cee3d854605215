"""A cluster that a program steers: started, asked and ended over the connection of `broker.dev.control`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from broker.cli.errors import CommandError
from broker.dev import topics
from broker.dev.control import FIRST_CONNECTION_MS, ControlServer
from broker.dev.stop_request import StopRequest
from broker.dev.supervisor import Plan, Supervisor
from timer.clock import Clock

# So often the processes are looked at while nobody asks for anything.
_LOOK_MS = 250


class ControlledCluster:
    """Runs until its last client has gone, or a signal asks for the end."""

    def __init__(self, plan: Plan, clock: Clock, token: str, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._clock = clock
        self._stop = StopRequest()
        self._server = ControlServer(token, self._stop.selector)
        self._supervisor = Supervisor(plan, clock, tell)
        self._tell = tell
        self._failure: str | None = None
        self._deadline_ms = clock.monotonic_ms() + FIRST_CONNECTION_MS

    def run(self) -> None:
        """Print where it listens, start the cluster, serve."""
        click.echo(json.dumps({"port": self._server.port}))
        try:
            self._start()
            while self._is_wanted(_LOOK_MS):
                self._server.answer_all(self._answer)
                if self._failure is None:
                    self._look()
        finally:
            # Its owners have gone without a word: nobody needs what it holds any more.
            self._supervisor.stop(at_once=not self._plan.keeps_data)
            self._server.close()

    def _start(self) -> None:
        try:
            self._supervisor.start(lambda: self._is_wanted(0))
        except (CommandError, OSError) as error:
            self._fail(str(error))

    def _look(self) -> None:
        try:
            self._supervisor.look()
        except CommandError as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        """Every request is answered with the reason from here on, until the clients have gone."""
        self._failure = reason
        self._tell(reason)

    def _is_wanted(self, wait_ms: float) -> bool:
        self._server.serve(self._stop.wait(wait_ms))
        if self._stop.is_set:
            return False
        if self._server.had_client:
            return self._server.has_client
        return self._clock.monotonic_ms() < self._deadline_ms

    def _answer(self, request: dict[str, Any], leave: Callable[[], None]) -> dict[str, Any]:
        if request.get("do") == "leave":
            leave()
            return {"ok": not self._server.has_client}
        if self._failure is not None:
            return {"error": self._failure}
        try:
            return {"ok": self._do(request)}
        except CommandError as error:
            return {"error": str(error)}
        except (OSError, KeyError, TypeError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _do(self, request: dict[str, Any]) -> Any:
        supervisor = self._supervisor
        match request["do"]:
            case "describe":
                return self._describe()
            case "create_topic":
                return topics.create_topic(
                    supervisor.cluster,
                    self._clock,
                    request["name"],
                    request["partitions"],
                    request["replication_factor"],
                    request["config"],
                )
            case "delete_topic":
                return topics.delete_topic(supervisor.cluster, self._clock, request["name"])
            case "kill":
                return supervisor.kill(request["broker"])
            case "pause":
                return supervisor.pause(request["broker"])
            case "resume":
                return supervisor.resume(request["broker"])
            case "restart":
                return supervisor.restart(request["broker"])
            case other:
                raise CommandError(f"unknown request {other!r}")

    def _describe(self) -> dict[str, Any]:
        """What the cluster is; answered once it serves."""
        cluster = self._supervisor.cluster
        return {
            "bootstrap": cluster.bootstrap,
            "zookeeper": self._supervisor.zookeeper_connect,
            "directory": str(self._plan.directory),
            "logs": [str(broker.log_file) for broker in cluster.brokers],
            "clients": self._clients(),
            "running": [broker.broker_id for broker in cluster.brokers if broker.is_running],
        }

    def _clients(self) -> dict[str, dict[str, str]]:
        """What each user configures a client of librdkafka with; the first may do everything."""
        bootstrap, security = self._supervisor.cluster.bootstrap, self._supervisor.security
        if security is None:
            return {"": {"bootstrap.servers": bootstrap}}
        found = {name: security.access(name, bootstrap).librdkafka() for name in security.names}
        return found if security.has_users else {"": found[security.names[0]]}
