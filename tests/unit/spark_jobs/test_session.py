"""Which brokers a Spark job talks to when nobody names any, and how it gets into the cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from spark_jobs.connection import BOOTSTRAP
from spark_jobs.jobs import RUNNING_CLUSTER
from spark_jobs.jobs.session import SHORT_LIVED, kafka_options, launch_settings


@click.command()
@kafka_options
def job(kafka: dict[str, str]) -> None:
    click.echo(kafka[BOOTSTRAP])


@click.group()
@click.pass_context
def of_odradek(context: click.Context) -> None:
    context.meta[RUNNING_CLUSTER] = lambda: ("dev:1", None)


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


def test_how_a_job_logs_in(tmp_path: Path) -> None:
    """By the file that is named, else the one of the cluster that was found; not by that for other brokers."""
    files = {name: tmp_path / f"{name}.properties" for name in ("found", "named")}
    for name, file in files.items():
        text = f"bootstrap.servers=h:1\nretries=3\nsecurity.protocol=SSL\nssl.truststore.location=/{name}.pem\n"
        file.write_text(text)
    seen: list[dict[str, str]] = []

    @click.command()
    @kafka_options
    def options(kafka: dict[str, str]) -> None:
        seen.append(kafka)

    @click.group()
    @click.pass_context
    def group(context: click.Context) -> None:
        context.meta[RUNNING_CLUSTER] = lambda: ("dev:1", files["found"])

    group.add_command(options)
    for arguments in ([], ["--command-config", str(files["named"])], ["-b", "h:1"]):
        assert CliRunner().invoke(group, ["options", *arguments], catch_exceptions=False).exit_code == 0
    secured = {"kafka.security.protocol": "SSL"}
    assert seen == [
        {BOOTSTRAP: "dev:1", **secured, "kafka.ssl.truststore.location": "/found.pem"},
        {BOOTSTRAP: "dev:1", **secured, "kafka.ssl.truststore.location": "/named.pem"},
        {BOOTSTRAP: "h:1"},
    ]


OURS = {"spark.pyspark.python": sys.executable}


@pytest.mark.parametrize(
    ("master", "short", "environment", "expected"),
    [
        (None, True, {}, {**SHORT_LIVED, **OURS}),
        ("local[2]", False, {}, OURS),
        ("local[2]", True, {"PYSPARK_PYTHON": "/another"}, SHORT_LIVED),
        (None, True, {"PYSPARK_GATEWAY_PORT": "1"}, {}),  # spark-submit has started the JVM
        ("spark://h:7077", True, {}, {}),  # executors are on other machines
    ],
)
def test_what_a_session_is_started_with(
    master: str | None, short: bool, environment: dict[str, str], expected: dict[str, str]
) -> None:
    assert launch_settings(master, short, environment) == expected
