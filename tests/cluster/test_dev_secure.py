"""``odradek dev --secure``: who is let in with the files that it makes, who is not, and what a restart leaves."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker.dev.polling import wait_until
from log.files.properties_text import parse_properties
from tests.reference import kafka
from tests.support.cluster import CLOCK, ROOT
from tests.support.dev_command import Command

PUBLIC = {"ca.pem"}
TOPICS = "org.apache.kafka.tools.TopicCommand"


class Secured:
    """A running `odradek dev --secure` of one broker with its data in ``directory/data``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "data" / "security"
        self.start()

    def start(self) -> None:
        self.command = Command(
            self.directory, "dev", "--secure", "--brokers", "1", "--port", "0", "--data-dir", str(self.files.parent)
        )
        self.bootstrap = self.command.wait_ready()[1]

    def client(self, user: str) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((self.files / f"{user}.json").read_text())
        return config

    def odradek(self, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
        """Without a terminal: what is asked for is read from `said`."""
        return subprocess.run(
            [sys.executable, "-m", "odradek", *arguments],
            input=said,
            start_new_session=True,
            cwd=ROOT,
            check=False,
            timeout=60,
            capture_output=True,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(self.directory / "state")},
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    yield made
    if made.command.process.poll() is None:
        made.command.end(signal.SIGTERM)


def produce(config: dict[str, Any], topic: str) -> KafkaError | None:
    """One record; the error of its report."""
    errors: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 30_000})
    producer.produce(topic, b"one", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    return errors[0]


def first_record(config: dict[str, Any], topic: str) -> Any:
    """Its value, or the error."""
    consumer = Consumer({**config, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        return message.value() if error is None else error.code()
    finally:
        consumer.close()


def check_refused(config: dict[str, Any], *codes: int) -> None:
    """The client tells of one of these, and is not served."""
    seen: list[int] = []
    settings: dict[str, Any] = {**config, "error_cb": lambda error: seen.append(error.code())}
    admin = AdminClient(settings)

    def told() -> bool:
        admin.poll(0.1)
        return any(code in seen for code in codes)

    assert wait_until(told, CLOCK, 30_000), seen
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)


def test_each_may_do_what_is_meant_for_it(secured: Secured) -> None:
    assert produce(secured.client("alice"), "orders") is None, "it is made when alice writes to it"
    assert first_record(secured.client("bob"), "orders") == b"one"
    refused = produce(secured.client("bob"), "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert first_record(secured.client("alice"), "orders") == KafkaError.GROUP_AUTHORIZATION_FAILED
    admin = AdminClient(secured.client("admin"))
    admin.create_topics([NewTopic("of-the-admin", num_partitions=1)])["of-the-admin"].result(30)


def test_the_first_steps_of_the_page(secured: Secured) -> None:
    """Its program, and its commands, which find the cluster and log in as admin; a password is asked for."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Who can read along")[0]
    program = page.partition("```python\n")[2].partition("```")[0]
    for ours, theirs in (("dev/security", str(secured.files)), ('"orders"', '"of-the-page"')):
        assert ours in program
        program = program.replace(ours, theirs)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.stdout == "b'three apples'\n", done.stderr
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("    odradek ")][1:]
    assert [words[:2] for words in commands] == [["users", "set"], ["acls", "add"]]
    for words in commands:
        done = secured.odradek(*words, said="of carol\n" * 2)
        assert done.returncode == 0, done.stderr
    assert "carol" in secured.odradek("users", "list").stdout
    assert "carols" in secured.odradek("acls", "list", "--topic", "carols").stdout


def test_nobody_else_is_let_in(secured: Secured) -> None:
    check_refused({**secured.client("alice"), "sasl.password": "a guess"}, KafkaError._AUTHENTICATION)
    check_refused({**secured.client("alice"), "sasl.mechanism": "PLAIN"}, KafkaError._AUTHENTICATION)
    plain = {"bootstrap.servers": secured.bootstrap}
    check_refused(plain, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    stranger = secured.client("alice")
    del stranger["ssl.ca.location"]  # the authority is this cluster's own
    check_refused(stranger, KafkaError._SSL)


def test_a_user_of_ones_own(secured: Secured) -> None:
    """Commands find the running cluster and its admin by themselves."""
    secret = secured.directory / "dave"
    secret.write_text("daves secret\n")
    made = secured.odradek("users", "set", "dave", "--password-file", str(secret))
    assert made.returncode == 0, made.stderr
    assert made.stderr == f"odradek: using the cluster of `odradek dev` at {secured.bootstrap}\n"
    dave = {**secured.client("alice"), "sasl.username": "dave", "sasl.password": "daves secret"}
    refused = produce(dave, "daves")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    add = ("acls", "add", "--principal", "User:dave", "--topic", "daves")
    assert secured.odradek(*add, "--operation", "write", "--operation", "create").returncode == 0
    assert wait_until(lambda: produce(dave, "daves") is None, CLOCK, 30_000)
    as_bob = ("topics", "create", "bobs", "--command-config", str(secured.files / "bob.properties"))
    assert "TOPIC_AUTHORIZATION_FAILED" in secured.odradek(*as_bob).stderr


def test_the_java_client(secured: Secured) -> None:
    config = secured.files / "admin.properties"
    done = kafka.run_tool(TOPICS, "--bootstrap-server", secured.bootstrap, "--list", "--command-config", str(config))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_prints_what_it_has_written(secured: Secured) -> None:
    text = "\n".join(secured.command.lines)
    for name, value in secured.client("alice").items():
        assert f'    "{name}": "{value}",\n' in text
    java = parse_properties((secured.files / "alice.properties").read_text())
    for name, value in java.items():
        assert f"    {name}={value}\n" in text
    spark = json.loads((secured.files / "alice.spark.json").read_text())
    assert spark == {f"kafka.{name}": value for name, value in java.items()}
    for name, value in spark.items():
        assert f"    .option({name!r}, {value!r})" in text


def test_a_restart_keeps_keys_passwords_and_what_was_changed(secured: Secured) -> None:
    for file in [*secured.files.iterdir(), *secured.files.parent.glob("broker-*/server.properties")]:
        mode = stat.S_IMODE(file.stat().st_mode)
        assert mode == 0o600 or file.name in PUBLIC, (file, oct(mode))
    assert stat.S_IMODE(secured.files.stat().st_mode) == 0o700
    kept = {file.name: file.read_bytes() for file in secured.files.glob("*.pem")}
    passwords = (secured.files / "passwords.properties").read_bytes()
    assert secured.odradek("acls", "remove", "--principal", "User:bob", "--force").returncode == 0
    assert secured.command.end(signal.SIGTERM) == 0
    secured.start()
    assert {file.name: file.read_bytes() for file in secured.files.glob("*.pem")} == kept
    assert (secured.files / "passwords.properties").read_bytes() == passwords
    before = secured.client("alice")
    assert produce(before, "again") is None
    assert first_record(secured.client("bob"), "again") == KafkaError.GROUP_AUTHORIZATION_FAILED

    assert secured.command.end(signal.SIGTERM) == 0
    (secured.files / "passwords.properties").unlink()
    secured.start()
    assert produce(secured.client("alice"), "again") is None, "a password that is lost is made anew"
    check_refused({**before, "bootstrap.servers": secured.bootstrap}, KafkaError._AUTHENTICATION)
