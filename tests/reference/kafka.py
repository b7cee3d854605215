"""Fetches Apache Kafka's jars once and starts its brokers and tools from them.

The jars lie in ``.cache`` of the repository, or in the folder that ODRADEK_CACHE names (several checkouts can share
one). Without Maven or Java 17 the tests that need them are skipped with the reason; ODRADEK_REQUIRE_REFERENCE=1 turns
that skip into a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.cli.errors import MissingPrerequisiteError
from broker.dev.java import find_java
from tests.support.fetched import fetched_once

VERSION = "3.9.1"
ROOT = Path(__file__).resolve().parents[2]
FETCH_TIMEOUT_S = 900

LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

# As Kafka's own scripts set it up for tools: what they print is theirs alone.
TOOLS_LOG4J = """\
log4j.rootLogger=WARN, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ReferenceUnavailableError(Exception):
    """Apache Kafka can't run here; the message says why."""


def cache_folder() -> Path:
    """Where fetched jars are kept."""
    return Path(os.environ.get("ODRADEK_CACHE", ROOT / ".cache"))


def libraries(version: str = VERSION) -> Path:
    """The folder of Kafka's jars, fetched by Maven if need be. Raises ReferenceUnavailableError."""
    try:
        java = find_java()
    except MissingPrerequisiteError as error:
        raise ReferenceUnavailableError(str(error)) from None
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    match = re.search(r'version "(\d+)', shown)
    if match is None or int(match[1]) < 17:
        raise ReferenceUnavailableError(f"Apache Kafka needs Java 17 or newer, found: {shown.splitlines()[:1]}")
    folder = cache_folder() / f"kafka-{version}" / "libs"
    return fetched_once(folder, lambda: _fetch(version, folder))


def _fetch(version: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ReferenceUnavailableError("Maven is not installed: apt-get install maven")
    command = [
        maven,
        "-q",
        "-B",
        "-ntp",
        f"-Dkafka.version={version}",
        "-f",
        str(Path(__file__).with_name("pom.xml")),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        raise ReferenceUnavailableError(f"Maven could not fetch Kafka {version}: {done.stdout[-500:]}")


def require(version: str = VERSION) -> Path:
    """The jars, or a skip with the reason (a failure when the reference is required)."""
    try:
        return libraries(version)
    except ReferenceUnavailableError as error:
        if os.environ.get("ODRADEK_REQUIRE_REFERENCE") == "1":
            pytest.fail(f"the reference is required: {error}")
        pytest.skip(f"no Apache Kafka here: {error}")


def java_command(libs: Path, main_class: str, *arguments: str, heap: str = "512m", tool: bool = False) -> list[str]:
    """A command that runs a class of Kafka's jars, quiet at start and small; a ``tool`` logs warnings only."""
    return [
        find_java(),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j.configuration=file:{_log4j_file(libs, tool)}",
        "-cp",
        f"{libs}/*",
        main_class,
        *arguments,
    ]


def _log4j_file(libs: Path, tool: bool) -> Path:
    file = libs.parent / ("tools-log4j.properties" if tool else "log4j.properties")
    if not file.exists():
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(TOOLS_LOG4J if tool else LOG4J)
        partial.replace(file)
    return file


def run_tool(
    main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's shell tools, for example ``org.apache.kafka.tools.TopicCommand``."""
    return subprocess.run(
        java_command(require(), main_class, *arguments, tool=True),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
