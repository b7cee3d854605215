"""``odradek zookeeper``: a ZooKeeper server in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.dev.processes import is_listening
from broker.dev.zookeeper import become_java


@click.command("zookeeper")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=2181, show_default=True, type=click.IntRange(1, 65535), help="Client port.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Kept data; temporary without it.")
def command(host: str, port: int, data_dir: Path | None) -> None:
    """Run a ZooKeeper server for development until Ctrl-C or SIGTERM, in the place of this process.

    The jars come from the installed pyspark, or from the folder that ODRADEK_ZOOKEEPER_LIBS names.
    """
    if is_listening(host, port):
        raise CommandError(f"port {port} of {host} is taken; choose another with --port")
    become_java(data_dir, port, host)
