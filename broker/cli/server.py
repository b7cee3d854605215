"""``odradek server``: one broker in the foreground."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command("server")
@click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="server.properties with Kafka's keys.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Set a key over the file; repeatable.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS, case_sensitive=False),
    help="Of all loggers that have no level of their own; without it that of log4j.properties, or INFO.",
)
def command(config_file: Path, override: tuple[str, ...], log_level: str | None) -> None:
    """Run one broker until SIGTERM or Ctrl-C, which stop it in a controlled way.

    Logs go to standard error, or to files in odradek.log.dir.
    """
    # Nothing of what is imported is garbage: collecting among it is a twentieth of the start, and later ones skip it.
    gc.disable()
    from broker.requests.handlers import import_handlers
    from broker.server_process import run_server

    import_handlers()
    gc.freeze()
    gc.enable()
    sys.exit(run_server(config_file, list(override), None if log_level is None else log_level.upper()))
