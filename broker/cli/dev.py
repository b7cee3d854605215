"""``odradek dev``: a local cluster of real processes in the foreground."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.cli.server import LOG_LEVELS
from broker.dev.cluster import HOST, READY_TIMEOUT_MS
from broker.dev.processes import free_ports, is_listening
from broker.dev.running import TEMPORARY_PREFIX, RunningCluster, noted, running_clusters
from broker.dev.stop_request import StopRequest
from broker.dev.supervisor import DEFAULT, JAVA, PLAINTEXT, PROTOCOLS, SECURE, Plan, Supervisor
from timer.clock import SystemClock

TOKEN = "ODRADEK_CONTROL_TOKEN"
_LOOK_MS = 500
_FIRST_CONSOLE = 8080


@click.command("dev")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 32), help="How many brokers.")
@click.option(
    "--port", default=9092, show_default=True, type=click.IntRange(0, 65535), help="First broker's port; 0: free ones."
)
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Kept data; temporary without it.")
@click.option("--zookeeper", metavar="HOST:PORT", help="Use this ZooKeeper instead of starting one.")
@click.option("--java", is_flag=True, help="Start a real ZooKeeper instead of the embedded one.")
@click.option("--restart", is_flag=True, help="Start a broker again that ends by itself.")
@click.option("--secure", is_flag=True, help=f"{SECURE} with users admin, alice and bob, and ACLs.")
@click.option(
    "--security",
    default=PLAINTEXT,
    show_default=True,
    type=click.Choice(PROTOCOLS),
    help="Another protocol, with the same users and ACLs where there is SASL.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Configuration of all brokers; repeatable.")
@click.option("--log-level", default="INFO", show_default=True, type=click.Choice(LOG_LEVELS, case_sensitive=False))
@click.option("--control", is_flag=True, hidden=True)
@click.option("--ready-timeout-ms", default=READY_TIMEOUT_MS, type=click.IntRange(0), hidden=True)
def command(
    brokers: int,
    port: int,
    data_dir: Path | None,
    zookeeper: str | None,
    java: bool,
    restart: bool,
    secure: bool,
    security: str,
    override: tuple[str, ...],
    log_level: str,
    control: bool,
    ready_timeout_ms: int,
) -> None:
    """Run a local cluster until Ctrl-C or SIGTERM. One line says when all brokers serve."""
    if zookeeper and java:
        raise CommandError("--zookeeper and --java exclude each other", exit_code=2)
    if secure and security not in (PLAINTEXT, SECURE):
        raise CommandError(f"--secure means {SECURE}; leave it out to have {security}", exit_code=2)
    if port + brokers > 65_536:
        raise CommandError(f"there are no {brokers} ports from {port} on", exit_code=2)
    running_clusters()  # what others have left behind is removed
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, ignore_cleanup_errors=True) as temporary:
        plan = Plan(
            ports=[port + n for n in range(brokers)] if port else free_ports(brokers),
            directory=data_dir or Path(temporary),
            zookeeper=zookeeper or (JAVA if java else DEFAULT),
            keeps_data=data_dir is not None,
            restarts=restart,
            settings=_settings(override),
            log_level=log_level.upper(),
            security=SECURE if secure else security,
            ready_timeout_ms=ready_timeout_ms,
            console_ports=[] if control else console_ports(brokers, port, _settings(override)),
        )
        if control:
            from broker.dev.controlled import ControlledCluster

            ControlledCluster(plan, SystemClock(), os.environ.pop(TOKEN), _tell).run()
        else:
            run(plan, temporary)


def console_ports(brokers: int, port: int, settings: Mapping[str, str]) -> list[int]:
    """Where the brokers' consoles are: from 8080 on, so that a bookmark holds, or on free ports where one is taken or
    the brokers' own are free ones. None where the settings say something about it themselves."""
    if "odradek.http.port" in settings or settings.get("odradek.console.access") == "off":
        return []
    wanted = [_FIRST_CONSOLE + number for number in range(brokers)]
    taken = any(is_listening(HOST, each) or port <= each < port + brokers for each in wanted)
    return wanted if port and not taken else free_ports(brokers)


def _settings(overrides: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for item in overrides:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise CommandError(f"--override {item!r} is not KEY=VALUE", exit_code=2)
        settings[key] = value
    return settings


def _tell(text: str) -> None:
    click.echo(f"odradek: {text}", err=True)


def _more(supervisor: Supervisor) -> str:
    """What else is told of a cluster that serves; where the console is only to a person: programs read one line."""
    shows = supervisor.cluster.consoles and sys.stdout.isatty()
    console = f"console: {supervisor.cluster.consoles[0]}\n" if shows else ""
    if supervisor.security is None:
        return console
    from broker.dev.client_texts import client_texts

    return console + client_texts(supervisor.security, supervisor.cluster.bootstrap)


def run(plan: Plan, temporary: str) -> None:
    """Start, say so, look after it until the stop, stop everything in order. Raises CommandError."""
    stop = StopRequest()

    def goes_on() -> bool:
        stop.wait(0)
        return not stop.is_set

    supervisor = Supervisor(plan, SystemClock(), _tell)
    try:
        if not supervisor.start(goes_on):
            return
        bootstrap, zookeeper = supervisor.cluster.bootstrap, supervisor.zookeeper_connect
        security = supervisor.security
        config = str(security.files(security.names[0]).java) if security else ""
        note = RunningCluster(os.getpid(), bootstrap, zookeeper, "" if plan.keeps_data else temporary, config)
        with noted(note):
            click.echo(
                f"ready: bootstrap.servers={bootstrap} zookeeper.connect={zookeeper}\n{_more(supervisor)}", nl=False
            )
            while not stop.is_set:
                stop.wait(_LOOK_MS)
                supervisor.look()
                if supervisor.is_over:
                    raise CommandError("no broker is left")
    finally:
        supervisor.stop()
