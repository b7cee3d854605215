"""Which brokers a Spark job talks to when nobody names any."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from spark_jobs.jobs import RUNNING_CLUSTER
from spark_jobs.jobs.session import BOOTSTRAP, kafka_options


@click.command()
@kafka_options
def job(kafka: dict[str, str]) -> None:
    click.echo(kafka[BOOTSTRAP])


@click.group()
@click.pass_context
def of_odradek(context: click.Context) -> None:
    context.meta[RUNNING_CLUSTER] = lambda: "dev:1"


of_odradek.add_command(job)


@pytest.mark.parametrize(
    ("environment", "arguments", "expected"),
    [({}, [], "dev:1"), ({}, ["-b", "h:1"], "h:1"), ({"ODRADEK_BOOTSTRAP_SERVER": "e:1"}, [], "e:1")],
)
def test_a_job_of_odradek_spark(environment: dict[str, str], arguments: list[str], expected: str) -> None:
    assert CliRunner(env=environment).invoke(of_odradek, ["job", *arguments]).output == f"{expected}\n"


def test_a_job_of_spark_submit_wants_an_address() -> None:
    found = CliRunner().invoke(job, [])
    assert (found.exit_code, "Missing option '--bootstrap-server'" in found.output) == (2, True)
    assert CliRunner().invoke(job, ["-b", "h:1"]).output == "h:1\n"
