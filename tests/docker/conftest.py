"""The engine and the images, once for the suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docker.engine import (
    BASE_TAG,
    KAFKA_SCRIPT,
    ZOOKEEPER_SCRIPT,
    Engine,
    EngineUnavailableError,
    build_base,
    build_java_image,
    build_wheelhouse,
    compose_command,
    engine,
    remove_wheelhouse,
    zookeeper_jars,
)
from tests.docker.stack import Stack
from tests.reference import kafka


def _unavailable(error: Exception) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"CI must run the containers: {error}")
    pytest.skip(f"no containers here: {error}")


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the base image and a wheelhouse on the host."""
    # A short path: unix sockets have a limit of 107 bytes.
    directory = tmp_path_factory.mktemp("d")
    try:
        compose_command()
        with engine(directory) as own:
            build_base(own, directory)
            build_wheelhouse(sys.executable, extra="security")
            build_java_image(own, directory, "odradek-test-zookeeper:1", zookeeper_jars(), ZOOKEEPER_SCRIPT)
            yield own
    except EngineUnavailableError as error:
        _unavailable(error)


@pytest.fixture(scope="session")
def kafka_image(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of Apache Kafka 3.9.1, from the jars of the reference."""
    jars = sorted(kafka.require().glob("*.jar"))
    build_java_image(docker, tmp_path_factory.mktemp("k"), "odradek-test-kafka:1", jars, KAFKA_SCRIPT)
    return "odradek-test-kafka:1"


@pytest.fixture
def spark_wheelhouse(docker: Engine) -> Iterator[Callable[[], None]]:
    """Builds the wheels of the Spark image when called; they are removed at the end, for they are large."""
    try:
        yield lambda: build_wheelhouse(sys.executable, "wheelhouse-spark", "spark")
    finally:
        remove_wheelhouse("wheelhouse-spark")


@pytest.fixture
def stack(docker: Engine, tmp_path: Path) -> Iterator[Stack]:
    """The compose cluster, up; taken down with its volumes at the end."""
    stack = Stack(docker, base_image=BASE_TAG, zookeeper_image="odradek-test-zookeeper:1")
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


@pytest.fixture
def secured(docker: Engine, tmp_path: Path) -> Iterator[Stack]:
    """Up, with the files for clients in ``tmp_path / "security"``."""
    made = Stack(
        docker,
        base_image=BASE_TAG,
        zookeeper_image="odradek-test-zookeeper:1",
        files=("docker-compose.secure.yml",),
        security_directory=tmp_path / "security",
    )
    try:
        made.compose("up", "-d", "--build")
        docker.run("docker", "cp", f"{made.container('broker-0')}:/security/host", str(tmp_path / "security"))
        docker.environment["ODRADEK_COMMAND_CONFIG"] = str(tmp_path / "security" / "admin.properties")
        made.wait(3)
        yield made
    finally:
        docker.environment.pop("ODRADEK_COMMAND_CONFIG", None)
        made.down()
