"""``odradek spark``: the Spark jobs, and the zip that executors need."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.cli.profiles import find
from spark_jobs.jobs import JOBS, RUNNING_CLUSTER


class JobGroup(click.Group):
    """Lists all jobs but imports only the one that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*JOBS, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in JOBS:
            return super().get_command(ctx, cmd_name)
        found: click.Command = importlib.import_module(f"spark_jobs.jobs.{cmd_name.replace('-', '_')}").main
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, JOBS.get(name) or self.commands[name].get_short_help_str(80)) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group("spark", cls=JobGroup)
@click.pass_context
def command(context: click.Context) -> None:
    """Run the Spark jobs, or package them."""
    context.meta[RUNNING_CLUSTER] = _running_cluster


def _running_cluster() -> tuple[str, Path | None]:
    """Its addresses, and the file with the login of its admin."""
    found = find(None)
    return found.servers, found.command_config


@command.command("package")
@click.argument("target", default="odradek-spark.zip", type=click.Path(dir_okay=False, path_type=Path))
def package(target: Path) -> None:
    """Build the zip for spark-submit --py-files."""
    from spark_jobs.package import build_zip

    try:
        count = build_zip(target)
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror}") from None
    click.echo(f"{target}: {count} files. Use it as: spark-submit --py-files {target} job.py")


@command.command("python")
@click.argument("target", default="odradek-python", type=click.Path(dir_okay=False, path_type=Path))
def python(target: Path) -> None:
    """Write a script for PYSPARK_PYTHON: this Python, which imports PySpark from its folder, not from Spark's zip."""
    from spark_jobs.package import write_script

    try:
        write_script(target, sys.executable)
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror}") from None
    click.echo(f"{target}: use it as PYSPARK_PYTHON={target.absolute()}")
