"""Spark's own standalone cluster as processes: a master and workers, on a Python that has not our packages."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark

from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports, is_listening
from tests.support.cluster import CLOCK, HOST

INSTALLED = Path(pyspark.__file__).parent
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Standalone:
    """A cluster below a directory; ``submit`` runs a job in client mode."""

    def __init__(self, directory: Path, workers: int) -> None:
        self.directory = directory
        self.home = directory / "spark"
        self.home.mkdir(parents=True)
        # Workers write below SPARK_HOME: one of our own, with links to the installed one.
        for name in ("bin", "jars", "python"):
            (self.home / name).symlink_to(INSTALLED / name)
        self.python = bare_python(directory)
        self.processes: list[ManagedProcess] = []
        port = free_ports(1)[0]
        self.master = f"spark://{HOST}:{port}"
        self._start("master", "deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
        assert wait_until(lambda: is_listening(HOST, port), CLOCK, 60_000), self.processes[0].log_tail(40)
        for number in range(workers):
            arguments = ["--host", HOST, "--cores", "1", "--memory", "600m", "--webui-port", "0", self.master]
            self._start(f"worker-{number}", "deploy.worker.Worker", *arguments)

    def _start(self, name: str, what: str, *arguments: str) -> None:
        command = [str(INSTALLED / "bin" / "spark-class"), f"org.apache.spark.{what}", *arguments]
        log = self.directory / f"{name}.log"
        self.processes.append(ManagedProcess(name, command, log, environment=self.environment(), directory=self.home))

    def environment(self, **more: str) -> dict[str, str]:
        """Of processes that know nothing of this checkout."""
        hidden = {k: "" for k in os.environ if k.startswith(("SPARK_", "PYSPARK_")) or k == "PYTHONPATH"}
        return {
            **hidden,
            "SPARK_HOME": str(self.home),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            **more,
        }

    def command(self, job: Path, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """How a job is submitted."""
        command = [str(INSTALLED / "bin" / "spark-submit"), "--master", self.master]
        command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"]
        command += ["--driver-java-options", SMALL_JVM, "--conf", f"spark.executor.extraJavaOptions={SMALL_JVM}"]
        return [*command, *options, str(job), *arguments]

    def submit(self, job: Path, *arguments: str, options: tuple[str, ...] = (), **environment: str) -> str:
        """Standard output of a job that ended well."""
        command = self.command(job, *arguments, options=options)
        errors = self.directory / f"{job.stem}.err"
        with errors.open("wb") as err:
            done = subprocess.run(
                command,
                cwd=job.parent,
                env={**os.environ, **self.environment(**environment)},
                stdout=subprocess.PIPE,
                stderr=err,
                timeout=400,
                check=False,
            )
        said = done.stdout.decode()
        assert done.returncode == 0, f"{said[-3000:]}\n{errors.read_text()[-4000:]}"
        return said

    def executors(self) -> set[Path]:
        """The directories of executors that have run."""
        return {place.parent for place in (self.home / "work").glob("app-*/*/stderr")}

    def stop(self) -> None:
        """End all processes."""
        for process in reversed(self.processes):
            process.stop(30)


@contextlib.contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[Standalone]:
    """A cluster for as long as the context lasts."""
    cluster = Standalone(directory, workers)
    try:
        yield cluster
    finally:
        cluster.stop()


def bare_python(directory: Path) -> Path:
    """A Python with all that is installed here but this checkout: editable installs are left out."""
    places = [place for place in sys.path if place.endswith("site-packages")]
    script = directory / "python"
    path = os.pathsep.join(places)
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{path}" exec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script
