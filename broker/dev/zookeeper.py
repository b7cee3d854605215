"""A real ZooKeeper server for development, from the jars that pyspark brings (or any folder of ZooKeeper jars)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn, Protocol

from broker.cli.errors import CommandError, MissingPrerequisiteError
from broker.dev import java_attendant, parent
from broker.dev.java import find_java
from broker.dev.polling import wait_until
from broker.dev.processes import ODRADEK, ManagedProcess
from timer.clock import Clock

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_NEEDED = ("zookeeper-", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "netty-")
_USEFUL = (*_NEEDED, "log4j", "logback", "snappy-java", "commons-io", "commons-cli", "jline", "jackson")

_ZOO_CFG = """\
# Written by odradek; changes are overwritten at the next start.
tickTime=2000
dataDir={data_dir}
clientPort={port}
clientPortAddress={host}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,stat,mntr,envi
# Sessions as short as tests need.
minSessionTimeout=1000
maxSessionTimeout=60000
autopurge.snapRetainCount=3
autopurge.purgeInterval=24
"""

_LOG4J2 = """\
status = error
appender.file.type = Console
appender.file.name = out
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c{1})%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def library_folder() -> Path:
    """The folder of ZooKeeper's jars: ODRADEK_ZOOKEEPER_LIBS, else inside the installed pyspark.

    Raises MissingPrerequisiteError naming the cure.
    """
    named = os.environ.get("ODRADEK_ZOOKEEPER_LIBS")
    if named:
        folder = Path(named)
        source = "ODRADEK_ZOOKEEPER_LIBS"
    else:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise MissingPrerequisiteError(
                "no ZooKeeper jars: pip install 'odradek[spark]' (they come with pyspark), "
                "or set ODRADEK_ZOOKEEPER_LIBS to a folder of them"
            )
        folder = Path(spec.origin).parent / "jars"
        source = "the installed pyspark"
    names = [jar.name for jar in folder.glob("*.jar")] if folder.is_dir() else []
    missing = [prefix for prefix in _NEEDED if not any(name.startswith(prefix) for name in names)]
    if missing:
        raise MissingPrerequisiteError(
            f"{folder} ({source}) has no {', '.join(p.rstrip('-') for p in missing)} jar: "
            "set ODRADEK_ZOOKEEPER_LIBS to a folder with ZooKeeper's jars"
        )
    return folder


def class_path(folder: Path) -> str:
    """Only what the server needs: a folder of Spark's has hundreds of jars."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(_USEFUL))


class DevZooKeeper(Protocol):
    """A ZooKeeper process of a local cluster, whatever is inside. ``connect`` is its ``host:port``."""

    connect: str
    process: ManagedProcess

    def is_ready(self) -> bool:
        """Whether it serves. Raises CommandError with the end of its log when it has ended."""
        ...

    def stop(self) -> None:
        """A clean stop."""
        ...


def java_command(data_dir: Path, port: int, host: str) -> list[str]:
    """The command of a real server; its configuration is written into ``data_dir``. Raises CommandError."""
    java = find_java()
    folder = library_folder()
    data_dir = data_dir.absolute()
    data_dir.mkdir(parents=True, exist_ok=True)
    if not os.access(data_dir, os.W_OK):
        raise CommandError(f"the data directory {data_dir} can't be written")
    config = data_dir / "zoo.cfg"
    config.write_text(_ZOO_CFG.format(data_dir=data_dir / "data", port=port, host=host))
    logging = data_dir / "log4j2.properties"
    logging.write_text(_LOG4J2)
    return [
        java,
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        class_path(folder),
        MAIN_CLASS,
        str(config),
    ]


class _ServerProcess:
    """A server in a process of its own, `process`, which the subclass starts."""

    process: ManagedProcess

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.connect = f"{host}:{port}"

    def is_ready(self) -> bool:
        if not self.process.is_running:
            raise CommandError(f"ZooKeeper ended at start:\n{self.process.log_tail()}")
        return is_serving(self.host, self.port)

    def wait_until_ready(self, clock: Clock, timeout_ms: int = 20_000) -> None:
        """Until it serves requests. Raises CommandError with the end of its log when it does not."""
        if not wait_until(self.is_ready, clock, timeout_ms):
            raise CommandError(f"ZooKeeper did not answer on {self.connect}:\n{self.process.log_tail()}")

    def stop(self) -> None:
        """A clean stop."""
        self.process.stop()


class ZooKeeperServer(_ServerProcess):
    """A real server, in a JVM that ends with this process."""

    def __init__(self, data_dir: Path, port: int, host: str = "127.0.0.1", log_file: Path | None = None) -> None:
        super().__init__(host, port)
        # A program of the standard library alone, which becomes Java.
        tied = [sys.executable, "-I", "-S", str(Path(parent.__file__).resolve())]
        self.process = ManagedProcess(
            "zookeeper",
            [*tied, *java_command(data_dir, port, host)],
            log_file or data_dir.absolute() / "zookeeper.log",
            tied=True,
        )


def become_java(data_dir: Path | None, port: int, host: str) -> NoReturn:
    """Replace this process by a real server: what is sent to it is sent to ZooKeeper. Raises CommandError.

    A small process beside it says when it serves and, without ``data_dir``, removes the temporary directory in the end.
    """
    directory = data_dir or Path(tempfile.mkdtemp(prefix="odradek-zookeeper-"))
    log_file = directory.absolute() / "zookeeper.log"
    try:
        command = java_command(directory, port, host)
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        attendant = [sys.executable, "-I", "-S", str(Path(java_attendant.__file__).resolve()), host, str(port)]
        arguments = [str(log_file), *([str(directory)] if data_dir is None else [])]
        # In a session of its own: a Ctrl-C is for ZooKeeper.
        subprocess.Popen([*attendant, *arguments], stdin=reader, start_new_session=True)
        with log_file.open("ab") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(command[0], command)
    except BaseException:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
        raise


class EmbeddedZooKeeper(_ServerProcess):
    """Odradek's own server of one node. Without ``data_dir`` it keeps everything in memory."""

    def __init__(self, data_dir: Path | None, port: int, log_file: Path, host: str = "127.0.0.1") -> None:
        super().__init__(host, port)
        store = ["--in-memory"] if data_dir is None else ["--data-dir", str(data_dir.absolute())]
        command = [*ODRADEK, "zookeeper", *store, "--host", host, "--port", str(port)]
        self.process = ManagedProcess("zookeeper", command, log_file, tied=True)


def is_serving(host: str, port: int) -> bool:
    """Whether a ZooKeeper server serves requests.

    It says `imok` to `ruok` before that, and a session asked for in between may never be answered; `srvr` tells.
    """
    try:
        with socket.create_connection((host, port), 1.0) as connection:
            connection.settimeout(2.0)
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
            return b"Mode:" in answer
    except OSError:
        return False
