"""Apicurio Registry as a process: a registry with Confluent's HTTP interface that nobody here wrote, by Maven."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.java import find_java
from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports
from tests.reference.kafka import cache_folder
from tests.support.cluster import CLOCK, HOST
from tests.support.fetched import fetched_once

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
RUNNER = f"apicurio-registry-app-{VERSION}-runner.jar"
FETCH_TIMEOUT_S = 900


class RegistryUnavailableError(Exception):
    """The registry can't be had; the message says why."""


def program() -> Path:
    """The registry's jar, fetched once. Raises RegistryUnavailableError."""
    folder = cache_folder() / f"apicurio-{VERSION}"
    return fetched_once(folder, lambda: _fetch(folder)) / RUNNER


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RegistryUnavailableError("Maven is not installed: apt-get install maven")
    command = [maven, "-q", "-B", "-ntp", PLUGIN, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        raise RegistryUnavailableError(f"Maven could not fetch {ARTIFACT}: {done.stdout[-500:]}")
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()


@contextlib.contextmanager
def apicurio(directory: Path) -> Iterator[str]:
    """A registry in memory; its URL. Skips the test without the program (fails where the reference is required)."""
    try:
        jar = program()
    except RegistryUnavailableError as error:
        if os.environ.get("ODRADEK_REQUIRE_REFERENCE") == "1":
            pytest.fail(f"the registry is required: {error}")
        pytest.skip(f"no registry here: {error}")
    port = free_ports(1)[0]
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx300m"]
    command += [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}", "-jar", str(jar)]
    process = ManagedProcess("apicurio", command, directory / "apicurio.log", directory=directory)
    url = f"http://{HOST}:{port}/apis/ccompat/v7"

    def serves() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    try:
        assert wait_until(serves, CLOCK, 120_000), process.log_tail(40)
        yield url
    finally:
        process.stop(30)
