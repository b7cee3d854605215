"""``odradek zookeeper``: a ZooKeeper server of one node in the foreground, embedded or real."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.cli.errors import CommandError


@click.command("zookeeper")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=2181, show_default=True, type=click.IntRange(0, 65535), help="Client port; 0: a free one."
)
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where data is kept.")
@click.option("--in-memory", is_flag=True, help="Keep nothing on disk (the default without --data-dir).")
@click.option("--java", is_flag=True, help="Run ZooKeeper itself; needs Java and its jars.")
def command(host: str, port: int, data_dir: Path | None, in_memory: bool, java: bool) -> None:
    """Run a ZooKeeper server of one node until Ctrl-C or SIGTERM, for development, tests and the edge.

    It is Odradek's own and needs no Java. With --java this process becomes ZooKeeper; the jars come from the installed
    pyspark, or from the folder that ODRADEK_ZOOKEEPER_LIBS names, and data without --data-dir is temporary.
    """
    if in_memory and data_dir is not None:
        raise CommandError("--in-memory keeps nothing: leave out --data-dir")
    if java:
        _become_java(host, port, data_dir)
    from controller.zk.embedded.__main__ import run
    from controller.zk.embedded.connection import Settings
    from controller.zk.embedded.machine import Limits

    sys.exit(run(host, port, data_dir, Limits(), Settings()))


def _become_java(host: str, port: int, data_dir: Path | None) -> None:
    from broker.dev.processes import free_ports, is_listening
    from broker.dev.zookeeper import become_java

    if port and is_listening(host, port):
        raise CommandError(f"port {port} of {host} is taken; choose another with --port")
    become_java(data_dir, port or free_ports(1, host)[0], host)
