"""What all jobs share: the Spark session, options, progress and files on whatever file system Spark knows."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import click

from log.files.properties_text import parse_properties
from spark_jobs.connection import BOOTSTRAP
from spark_jobs.jobs import RUNNING_CLUSTER
from spark_jobs.package import python_with_folder

PYTHON = "spark.pyspark.python"
_COMMAND_CONFIG = "odradek.command-config"
_SECURITY_KEYS = ("security.protocol", "sasl.", "ssl.")
# Of a JVM that lives for some seconds: the optimizing compiler and a parallel collector take more than they give.
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.ui.enabled": "false"}

F = TypeVar("F", bound=Callable[..., Any])


class Launch(NamedTuple):
    """How a job's Spark session is to be made and its result shown: ``--master``, ``--conf`` and ``--json``."""

    master: str | None
    confs: tuple[str, ...]
    as_json: bool = False

    def open(self, name: str, *, short: bool = False) -> Any:
        """The session of the job, as `open_session`. ``short``: there is little to do."""
        return open_session(name, self.master, self.confs, short=short)

    def show(self, result: Mapping[str, Any]) -> None:
        """The result on standard output, as `show_result`."""
        show_result(result, self.as_json)


def spark_options(function: F) -> F:
    """``--master``, ``--conf`` and ``--json`` of a job, which is given them as `launch`.

    With spark-submit the session is there already and they are not needed.
    """

    @functools.wraps(function)
    def with_launch(*, master: str | None, confs: tuple[str, ...], as_json: bool, **others: Any) -> Any:
        return function(launch=Launch(master, confs, as_json), **others)

    decorated = click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")(with_launch)
    decorated = click.option(
        "--conf", "confs", multiple=True, metavar="KEY=VALUE", help="Spark configuration; repeatable."
    )(decorated)
    return cast(F, click.option("--master", help="Spark master; local[*] when nothing else says one.")(decorated))


def kafka_options(function: F) -> F:
    """`cluster_options` and ``--option``: a job is given the options of its source or sink as `kafka`."""

    @functools.wraps(function)
    def with_kafka(*, kafka: dict[str, str], options: tuple[str, ...], **others: Any) -> Any:
        return function(kafka={**kafka, **pairs(options, "--option")}, **others)

    decorated = click.option(
        "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the odradek format; repeatable."
    )(with_kafka)
    return cluster_options(cast(F, decorated))


def cluster_options(function: F) -> F:
    """``--bootstrap-server`` and ``--command-config``: a job is given the options that lead into the cluster as
    `kafka`. `odradek spark` knows the cluster of the `odradek dev` that runs, spark-submit none."""

    @functools.wraps(function)
    def with_cluster(*, bootstrap_server: str, **others: Any) -> Any:
        file = click.get_current_context().meta.get(_COMMAND_CONFIG)
        return function(kafka={BOOTSTRAP: bootstrap_server, **security_options(file)}, **others)

    decorated = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="ODRADEK_COMMAND_CONFIG",
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="Properties file with the keys of Kafka's Java clients: security.protocol, sasl.*, ssl.*.",
    )(with_cluster)
    return cast(
        F,
        click.option(
            "--bootstrap-server",
            "-b",
            callback=_or_the_running_cluster,
            envvar=["ODRADEK_BOOTSTRAP_SERVERS", "ODRADEK_BOOTSTRAP_SERVER"],
            help="Brokers to start from, host:port separated by commas.  [default: the running `odradek dev`]",
        )(decorated),
    )


def security_options(file: Path | None) -> dict[str, str]:
    """The options that secure connections as that properties file says. Raises click.UsageError."""
    if file is None:
        return {}
    try:
        found = parse_properties(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--command-config {file}: {error}") from None
    return {f"kafka.{name}": value for name, value in found.items() if name.startswith(_SECURITY_KEYS)}


def _remember(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    context.meta[_COMMAND_CONFIG] = value


def topic_options(function: F) -> F:
    """``--topics`` and ``--pattern``: a job is given the source's option for them as `chosen`."""

    @functools.wraps(function)
    def with_topics(*, topics: str, pattern: bool, **others: Any) -> Any:
        return function(chosen={"subscribePattern" if pattern else "subscribe": topics}, **others)

    decorated = click.option("--pattern", is_flag=True, help="--topics is a regular expression.")(with_topics)
    help_text = "Topics, separated by commas; or a pattern with --pattern."
    return cast(F, click.option("--topics", required=True, help=help_text)(decorated))


def _or_the_running_cluster(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value:
        return value
    find: Callable[[], tuple[str, Path | None]] | None = context.meta.get(RUNNING_CLUSTER)
    if find is None:
        raise click.MissingParameter(ctx=context, param=parameter)
    servers, file = find()
    if context.meta[_COMMAND_CONFIG] is None:
        context.meta[_COMMAND_CONFIG] = file
    return servers


def pairs(items: tuple[str, ...], option: str) -> dict[str, str]:
    """KEY=VALUE items as a mapping. Raises click.UsageError."""
    found = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {item!r} is not KEY=VALUE")
        found[key] = value
    return found


def open_session(name: str, master: str | None, confs: tuple[str, ...], *, short: bool = False) -> Any:
    """A Spark session in UTC with our formats registered; an existing one is used as it is.

    ``short`` says that there is little to do: a JVM of our own then starts with what suits a few seconds. ``--conf``
    comes before that. Raises click.ClickException where Spark or Java is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise click.ClickException("PySpark is not installed: pip install 'odradek[spark]'") from None
    from spark_jobs.source import register

    active = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(f"odradek {name}")
    if active is None:
        said = pairs(confs, "--conf")
        launched = launch_settings(master, short)
        if PYTHON in launched and PYTHON not in said:
            if "SPARK_HOME" not in os.environ:  # of another Spark the zips may be of another version
                launched[PYTHON] = python_with_folder(launched[PYTHON])
            # PySpark tells its workers' Python from the environment alone, when the context is made.
            os.environ["PYSPARK_PYTHON"] = launched[PYTHON]
        for key, value in {"spark.ui.showConsoleProgress": "true", **launched, **said}.items():
            builder = builder.config(key, value)
        if master is not None:
            builder = builder.master(master)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise click.ClickException(f"Spark does not start: {error}") from None
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)
    return spark


def launch_settings(master: str | None, short: bool, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a session of this process on this machine wants; nothing for spark-submit, whose JVM runs already.

    Its Python workers are of the Python that runs the job, which is where our packages are: Spark would take whatever
    ``python3`` is first on the path.
    """
    if "PYSPARK_GATEWAY_PORT" in environment or not (master or "local").startswith("local"):
        return {}
    settings = dict(SHORT_LIVED) if short else {}
    if "PYSPARK_PYTHON" not in environment:
        settings[PYTHON] = sys.executable
    return settings


def say(text: str) -> None:
    """Progress goes to standard error, so that results can be piped."""
    print(text, file=sys.stderr, flush=True)


def show_result(result: Mapping[str, Any], as_json: bool) -> None:
    """The result as one JSON object, or as lines for a person."""
    if as_json:
        click.echo(json.dumps(result))
        return
    for key, value in result.items():
        if isinstance(value, list):
            click.echo(f"{key}:")
            for row in value:
                click.echo(
                    "  " + ("  ".join(f"{k}={v}" for k, v in row.items()) if isinstance(row, dict) else str(row))
                )
        else:
            click.echo(f"{key}: {value}")


def class_is_there(spark: Any, name: str) -> bool:
    """Whether the session's JVM can load a class, from Spark's jars or the user's."""
    return bool(spark._jvm.org.apache.spark.util.Utils.classIsLoadable(name))


class Files:
    """Files below a base path, through Hadoop's file systems: local, HDFS, object stores."""

    def __init__(self, spark: Any, base: str) -> None:
        self._jvm = spark._jvm
        self._base = self._jvm.org.apache.hadoop.fs.Path(base)
        self._fs = self._base.getFileSystem(spark._jsc.hadoopConfiguration())
        self._root = self._fs.makeQualified(self._base).toUri().getPath()

    def path(self, name: str) -> Any:
        """A path below the base."""
        return self._jvm.org.apache.hadoop.fs.Path(self._base, name) if name else self._base

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there."""
        return bool(self._fs.exists(self.path(name)))

    def list(self, name: str, suffix: str = "") -> list[tuple[str, int]]:
        """All files below a folder, with names relative to the base and sizes; sorted. Empty when it is not there."""
        if not self.exists(name):
            return []
        found = []
        files = self._fs.listFiles(self.path(name), True)
        while files.hasNext():
            each = files.next()
            path = str(each.getPath().toUri().getPath())
            if path.endswith(suffix):
                found.append((path[len(self._root) :].lstrip("/"), int(each.getLen())))
        return sorted(found)

    def move(self, source: str, target: str) -> None:
        """Rename; the target's folder is made. Raises OSError when the file system refuses."""
        self._fs.mkdirs(self.path(target).getParent())
        if not self._fs.rename(self.path(source), self.path(target)):
            raise OSError(f"{source} could not be renamed to {target}")

    def delete(self, name: str) -> None:
        """Delete a file or a folder with all in it, if there."""
        self._fs.delete(self.path(name), True)

    def write(self, name: str, text: str) -> None:
        """Write a file as a whole: under another name first, then renamed."""
        partial = f"{name}.partial"
        out = self._fs.create(self.path(partial), True)
        try:
            out.write(bytearray(text.encode()))
            out.hsync()
        finally:
            out.close()
        self.move(partial, name)

    def read(self, name: str) -> str:
        """The text of a small file."""
        stream = self._fs.open(self.path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
