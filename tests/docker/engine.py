"""A Docker engine of the test's own, and images built from Debian's packages instead of pulled.

On a machine where an engine already answers, that one is used. Otherwise `dockerd` is started here with folders and a
socket of its own, which needs root. No registry is asked: the base image comes from debootstrap, wheels from the host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess
from broker.dev.zookeeper import class_path, library_folder
from tests.reference import kafka
from tests.support.cluster import CLOCK, ROOT

BASE_TAG = "odradek-test-base:1"
PACKAGES = "python3,python3-venv,openjdk-17-jre-headless"
SUITE = "bookworm"
ENGINE_TIMEOUT_MS = 60_000


class EngineUnavailableError(Exception):
    """No engine answers and none can be started; the message says why."""


class Engine:
    """Runs `docker` and `docker-compose` against one engine."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = {**os.environ, **environment}

    def run(
        self, *command: str, timeout_s: float = 600, stdin: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with this engine's environment; failures show its output."""
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(stdin.open("rb")) if stdin is not None else subprocess.DEVNULL
            done = subprocess.run(
                command,
                env=self.environment,
                cwd=ROOT,
                stdin=source,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def has_image(self, tag: str) -> bool:
        """Whether an image is there."""
        return self.run("docker", "image", "inspect", tag, check=False).returncode == 0


def compose_command() -> list[str]:
    """`docker-compose` 1.29 or the plugin of Compose v2. Raises EngineUnavailableError."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    raise EngineUnavailableError("neither docker-compose nor the compose plugin is installed")


@contextlib.contextmanager
def engine(directory: Path) -> Iterator[Engine]:
    """An engine that answers. Raises EngineUnavailableError."""
    if shutil.which("docker") is None:
        raise EngineUnavailableError("docker is not installed: apt-get install docker.io docker-compose")
    existing = Engine({})
    if existing.run("docker", "info", check=False, timeout_s=30).returncode == 0:
        yield existing
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        raise EngineUnavailableError("no Docker engine answers, and starting dockerd needs root and docker.io")
    socket = f"unix://{directory}/docker.sock"
    daemon = ManagedProcess(
        "dockerd",
        [
            "dockerd",
            f"--storage-driver={storage_driver(directory)}",
            f"--data-root={directory}/data",
            f"--exec-root={directory}/exec",
            f"--pidfile={directory}/docker.pid",
            "-H",
            socket,
        ],
        directory / "dockerd.log",
    )
    own = Engine({"DOCKER_HOST": socket, "COMPOSE_HTTP_TIMEOUT": "300"})
    try:

        def answers() -> bool:
            if not daemon.is_running:
                raise EngineUnavailableError(f"dockerd ended: {daemon.log_tail(15)}")
            return own.run("docker", "info", check=False, timeout_s=30).returncode == 0

        if not wait_until(answers, CLOCK, ENGINE_TIMEOUT_MS, interval_ms=300):
            raise EngineUnavailableError(f"dockerd does not answer: {daemon.log_tail(15)}")
        yield own
    finally:
        daemon.stop()


def storage_driver(directory: Path) -> str:
    """`overlay2` if the file system can do that, which saves a copy of everything for each layer and container."""
    lower, upper, work, merged = (directory / "overlay" / name for name in ("lower", "upper", "work", "merged"))
    for each in (lower, upper, work, merged):
        each.mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)], capture_output=True, check=False
    )
    if mounted.returncode:
        return "vfs"
    subprocess.run(["umount", str(merged)], check=True)
    return "overlay2"


def build_base(own: Engine, directory: Path) -> None:
    """The base image of all containers of the test: a minimal Debian with Python and Java."""
    if own.has_image(BASE_TAG):
        return
    archive = kafka.cache_folder() / f"base-{SUITE}.tar"
    if not archive.exists():
        if shutil.which("debootstrap") is None:
            raise EngineUnavailableError("debootstrap is not installed: apt-get install debootstrap")
        root = directory / "rootfs"
        own.run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), timeout_s=900)
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial")
        # --one-file-system: debootstrap may leave /proc and /sys mounted inside.
        own.run("tar", "--one-file-system", "-C", str(root), "-cf", str(partial), ".", timeout_s=300)
        partial.replace(archive)
        shutil.rmtree(root, ignore_errors=True)
    own.run("docker", "import", str(archive), BASE_TAG, timeout_s=300)


def build_wheelhouse(python: str, folder: str = "wheelhouse", extra: str = "") -> None:
    """Wheels of odradek and what it depends on, with an extra if one is named, for an image to install from."""
    target = ROOT / "docker" / folder
    remove_wheelhouse(folder)
    target.mkdir(parents=True)
    wanted = f".[{extra}]" if extra else "."
    command = [python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--wheel-dir", str(target), wanted]
    leftovers = ROOT / "build"  # what is in it would get into the next wheel
    shutil.rmtree(leftovers, ignore_errors=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    shutil.rmtree(leftovers, ignore_errors=True)
    if done.returncode:
        raise AssertionError(f"the wheelhouse was not built:\n{done.stdout}\n{done.stderr}")


def remove_wheelhouse(folder: str) -> None:
    """Every later build would send it to the engine."""
    shutil.rmtree(ROOT / "docker" / folder, ignore_errors=True)


_JAVA_DOCKERFILE = """\
FROM {base}
COPY files /files
CMD {command}
"""


def build_java_image(own: Engine, directory: Path, tag: str, jars: Sequence[Path], script: str) -> None:
    """An image that runs a script over some jars: stands in for the images that the default configuration pulls."""
    context = directory / tag.replace(":", "-")
    files = context / "files"
    files.mkdir(parents=True)
    for jar in jars:
        shutil.copy(jar, files)
    (files / "start.sh").write_text(script)
    shutil.copy(ROOT / "docker" / "entrypoint.py", files)
    (context / "Dockerfile").write_text(
        _JAVA_DOCKERFILE.format(base=BASE_TAG, command='["/bin/bash", "/files/start.sh"]')
    )
    own.run("docker", "build", "-q", "-t", tag, str(context), timeout_s=600)


ZOOKEEPER_SCRIPT = """\
mkdir -p /data /datalog
cat > /tmp/zoo.cfg <<CFG
tickTime=2000
dataDir=/data
dataLogDir=/datalog
clientPort=2181
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
minSessionTimeout=1000
maxClientCnxns=0
CFG
exec java -Xmx256m -XX:+UseSerialGC -cp '/files/*' org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
"""

KAFKA_SCRIPT = """\
exec python3 /files/entrypoint.py java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/files/*' \\
    kafka.Kafka /tmp/odradek/effective.properties
"""


def zookeeper_jars() -> list[Path]:
    """The jars of a ZooKeeper server, from the installed pyspark."""
    return [Path(jar) for jar in class_path(library_folder()).split(os.pathsep)]
