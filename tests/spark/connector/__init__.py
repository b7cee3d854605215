"""The jars of Spark's own Kafka connector, fetched once by Maven into the same cache as the reference."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.reference.kafka import cache_folder
from tests.support.fetched import fetched_once

VERSION = "4.2.0"
FETCH_TIMEOUT_S = 900


class ConnectorUnavailableError(Exception):
    """The jars can't be had; the message says why."""


def jars() -> list[Path]:
    """The jars. Raises ConnectorUnavailableError."""
    folder = cache_folder() / f"spark-connector-{VERSION}"
    return sorted(fetched_once(folder, lambda: _fetch(folder)).glob("*.jar"))


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorUnavailableError("Maven is not installed: apt-get install maven")
    pom = Path(__file__).with_name("pom.xml")
    command = [maven, "-q", "-B", "-ntp", f"-Dspark.version={VERSION}", "-f", str(pom)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        raise ConnectorUnavailableError(f"Maven could not fetch Spark's connector {VERSION}: {done.stdout[-500:]}")


def available() -> list[Path]:
    """The jars, or none where they can't be had."""
    try:
        return jars()
    except ConnectorUnavailableError:
        return []


def require() -> None:
    """Skip the test without the jars (fail where the reference is required)."""
    try:
        jars()
    except ConnectorUnavailableError as error:
        if os.environ.get("ODRADEK_REQUIRE_REFERENCE") == "1":
            pytest.fail(f"the connector is required: {error}")
        pytest.skip(f"no connector of Spark here: {error}")
