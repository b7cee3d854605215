"""Keys whose promise is not kept: what stands in the table is true, and nothing is ignored in silence."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from broker.config.broker_keys import BROKER_KEYS, synonyms_of
from broker.config.group_keys import GROUP_KEYS
from broker.config.honoured import NOT_HONOURED, TOPIC_NOT_HONOURED, Unkept, plain_name, warnings
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError, ConfigType, UpdateMode
from broker.config.topic_keys import TOPIC_KEYS
from log.config import LogConfig

BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}
ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("broker", "controller", "log", "network", "timer")
ABOUT_KEYS = {"broker_keys.py", "topic_keys.py", "group_keys.py", "honoured.py", "dynamic.py", "cross_checks.py"}
"""Files that name keys without doing what they promise."""
PROMISES_OF_CHECKS = {"broker.id.generation.enable", "process.roles"}
"""Keys that only say what is refused."""
EXAMPLES = {
    ConfigType.BOOLEAN: "true",
    ConfigType.INT: "4321",
    ConfigType.LONG: "4321",
    ConfigType.SHORT: "43",
    ConfigType.DOUBLE: "0.25",
}
REFUSED = sorted(name for name, unkept in NOT_HONOURED.items() if unkept.refused)
WARNED = sorted(name for name, unkept in NOT_HONOURED.items() if not unkept.refused)


class Reads(ast.NodeVisitor):
    """What the product's code mentions: strings, attributes read, and which keyword arguments are given by a key."""

    def __init__(self) -> None:
        self.strings: set[str] = set()
        self.attributes: Counter[str] = Counter()
        self.names: set[str] = set()
        self.handed_on: dict[str, str] = {}

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.add(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.attributes[node.attr] += 1
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            for part in ast.walk(keyword.value):
                if keyword.arg and isinstance(part, ast.Constant) and part.value in BROKER_KEYS:
                    self.handed_on[str(part.value)] = keyword.arg
        self.generic_visit(node)


@pytest.fixture(scope="module")
def reads() -> Reads:
    found = Reads()
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            if path.name not in ABOUT_KEYS and path.parent.name != "documentation":
                found.visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def is_topic_key_read(name: str, reads: Reads) -> bool:
    """A log obeys it, or somebody else names it."""
    field = name.replace(".", "_")
    if field in LogConfig.__dataclass_fields__:
        return reads.attributes[field] > 0
    return name in reads.strings


def is_read(name: str, reads: Reads) -> bool:
    """The code names the key, or the topic key or group key that it is the default of, or the name it is another
    unit of; and where its value is handed on to an object, that is read too."""
    supplied = [key.name for key in TOPIC_KEYS.values() if key.broker_key in synonyms_of(name)]
    if any(is_topic_key_read(topic_key, reads) for topic_key in supplied):
        return True
    if name.startswith("group.consumer.") and any(name.endswith(key.removeprefix("consumer.")) for key in GROUP_KEYS):
        return "group.consumer." in reads.strings
    if name in reads.handed_on:
        target = reads.handed_on[name]
        return reads.attributes[target] > 0 or target in reads.names
    return name in reads.strings


def test_honoured_keys_are_read(reads: Reads) -> None:
    promised = [name for name in BROKER_KEYS if name not in PROMISES_OF_CHECKS | NOT_HONOURED.keys()]
    assert [name for name in promised if not is_read(name, reads)] == []


def test_honoured_topic_keys_are_read(reads: Reads) -> None:
    assert [name for name in TOPIC_KEYS if name not in TOPIC_NOT_HONOURED and not is_topic_key_read(name, reads)] == []


def test_keys_that_are_not_honoured_are_known() -> None:
    assert not NOT_HONOURED.keys() - BROKER_KEYS.keys()
    assert not TOPIC_NOT_HONOURED.keys() - TOPIC_KEYS.keys()


def test_a_key_that_nobody_reads_is_found(reads: Reads) -> None:
    assert not is_read("metrics.num.samples", reads)
    assert not is_topic_key_read("local.retention.ms", reads)


def other_value(name: str) -> str:
    """A legal value that is not the default."""
    key = BROKER_KEYS[name]
    special = {
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "auto.include.jmx.reporter": "false",
        "log.message.format.version": "2.8",
        "group.share.delivery.count.limit": "7",
        "group.share.max.record.lock.duration.ms": "50000",
        "group.share.min.record.lock.duration.ms": "20000",
        "group.share.record.lock.duration.ms": "20000",
    }
    return special.get(name) or EXAMPLES.get(key.type, "something")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name.replace('.', '[.]')} is set, but cannot be honoured: ") as caught:
        KafkaConfig({**BASE, name: other_value(name)})
    assert other_value(name) not in str(caught.value) or BROKER_KEYS[name].type is not ConfigType.PASSWORD


@pytest.mark.parametrize("name", WARNED)
def test_warned(name: str) -> None:
    config = KafkaConfig({**BASE, name: other_value(name)})
    assert list(warnings(config.originals)) == [f"{name} is not honoured: {NOT_HONOURED[name].instead}"]


def test_default_values_do_no_harm() -> None:
    defaults = {
        name: key.default
        for name, key in BROKER_KEYS.items()
        if key.default is not None
        and key.mode is not UpdateMode.DYNAMIC_ONLY
        and name not in ("broker.id", "node.id", "security.inter.broker.protocol")
    }
    assert "ssl.protocol" in defaults
    config = KafkaConfig({**defaults, **BASE, "ssl.enabled.protocols": " TLSv1.2 , TLSv1.3 "})
    assert list(warnings(config.originals)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listener.name.plaintext.ssl.engine.factory.class", "x"),
        ("listener.name.plaintext.sasl.login.class", "x"),
        ("listener.name.plaintext.scram-sha-256.sasl.login.class", "x"),
        ("listener.name.plaintext.principal.builder.class", "x"),
    ],
)
def test_keys_of_one_listener_are_refused_too(name: str, text: str) -> None:
    assert plain_name(name) in NOT_HONOURED
    with pytest.raises(ConfigError, match="cannot be honoured"):
        KafkaConfig({**BASE, name: text})


def test_a_protocol_that_no_listener_uses_is_no_harm() -> None:
    KafkaConfig({**BASE, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_SSL"})


def test_dynamic_values_are_refused_too() -> None:
    config = KafkaConfig(BASE)
    with pytest.raises(ConfigError, match=r"principal\.builder\.class"):
        config.use_dynamic({"listener.name.plaintext.principal.builder.class": "x"}, {})
    assert config.dynamic_broker == {}


def test_unknown_keys_are_warned_of() -> None:
    lines = list(warnings({"log.retention.hour": "1", "super.users": "User:a", "num.io.threads": "2"}))
    assert lines == [
        "log.retention.hour is no key of this broker and has no effect; is it log.retention.hours?",
        "super.users has no effect without authorizer.class.name",
    ]
    assert not list(warnings({"super.users": "User:a", "authorizer.class.name": "package.module:Class"}))


def test_only_some_keys_have_values_of_one_listener() -> None:
    assert list(warnings({"listener.name.a.max.connections": "5"})) == []
    (line,) = warnings({"listener.name.a.queued.max.requests": "5"})
    assert line.startswith("listener.name.a.queued.max.requests has no effect")


def test_the_daemon_ends_in_one_line(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    lines = [f"{name}={value}" for name, value in {**BASE, "authorizer.class.name": "kafka.security.A"}.items()]
    properties.write_text("\n".join(lines))
    command = [sys.executable, "-m", "broker", "server", "--config", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "odradek server: authorizer.class.name is set, but cannot be honoured: it takes "
        "kafka.security.authorizer.AclAuthorizer, or a class of Python as package.module:Class "
        "(authorizer.class.name=kafka.security.A)\n"
    )


def test_a_row_says_what_happens_instead() -> None:
    rows: list[Unkept] = [*NOT_HONOURED.values(), *TOPIC_NOT_HONOURED.values()]
    assert all(row.instead and "\n" not in row.instead for row in rows)
