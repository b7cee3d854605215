"""``odradek zookeeper``: a ZooKeeper server in the foreground."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

import click

from broker.cli.errors import CommandError
from broker.dev.processes import is_listening
from broker.dev.waiting import wait_until
from broker.dev.zookeeper import ZooKeeperServer
from timer.clock import SystemClock


@click.command("zookeeper")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=2181, show_default=True, type=click.IntRange(1, 65535), help="Client port.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Kept data; temporary without it.")
def command(host: str, port: int, data_dir: Path | None) -> None:
    """Run a ZooKeeper server for development until Ctrl-C or SIGTERM.

    The jars come from the installed pyspark, or from the folder that ODRADEK_ZOOKEEPER_LIBS names.
    """
    if is_listening(host, port):
        raise CommandError(f"port {port} of {host} is taken; choose another with --port")
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with tempfile.TemporaryDirectory(prefix="odradek-zookeeper-") as temporary:
        server = ZooKeeperServer(data_dir or Path(temporary), port, host)
        try:
            clock = SystemClock()
            server.wait_until_ready(clock)
            click.echo(f"ready: zookeeper.connect={server.connect}")
            wait_until(lambda: stopped.is_set() or not server.process.is_running, clock, 2**62, interval_ms=200)
            if not stopped.is_set():
                raise CommandError(f"ZooKeeper ended by itself:\n{server.process.log_tail()}")
        finally:
            server.stop()
