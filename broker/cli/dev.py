"""``odradek dev``: a local cluster of real processes in the foreground."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

import click

from broker.cli.errors import CommandError
from broker.dev.cluster import DevCluster
from broker.dev.processes import free_ports
from broker.dev.waiting import wait_until
from broker.dev.zookeeper import ZooKeeperServer
from timer.clock import SystemClock


@click.command("dev")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 32), help="How many brokers.")
@click.option("--port", default=9092, show_default=True, type=click.IntRange(1, 65535), help="First broker's port.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Kept data; temporary without it.")
@click.option("--zookeeper", metavar="HOST:PORT", help="Use this ZooKeeper instead of starting one.")
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Configuration of all brokers; repeatable.")
def command(brokers: int, port: int, data_dir: Path | None, zookeeper: str | None, override: tuple[str, ...]) -> None:
    """Run a local cluster until Ctrl-C or SIGTERM. One line says when all brokers serve."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with tempfile.TemporaryDirectory(prefix="odradek-dev-") as temporary:
        run(data_dir or Path(temporary), brokers, port, zookeeper, _settings(override), stopped)


def _settings(overrides: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for item in overrides:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise CommandError(f"--override {item!r} is not KEY=VALUE", exit_code=2)
        settings[key] = value
    return settings


def run(
    directory: Path,
    brokers: int,
    port: int,
    zookeeper: str | None,
    settings: dict[str, str],
    stopped: threading.Event,
) -> None:
    """Start, say so, wait for the stop, stop everything in order. Raises CommandError."""
    clock = SystemClock()
    server = None
    cluster = None
    try:
        if zookeeper is None:
            server = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
            server.wait_until_ready(clock)
            zookeeper = server.connect
        cluster = DevCluster([port + n for n in range(brokers)], directory, zookeeper, clock, settings)
        cluster.start()
        click.echo(f"ready: bootstrap.servers={cluster.bootstrap} zookeeper.connect={zookeeper}")
        while not stopped.is_set():
            wait_until(stopped.is_set, clock, 500)
            cluster.check()
            if server is not None and not server.process.is_running:
                raise CommandError(f"ZooKeeper ended by itself:\n{server.process.log_tail()}")
    finally:
        if cluster is not None:
            cluster.stop()
        if server is not None:
            server.stop()
