"""Which authorizer is made, and one of the user's own that fails."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Mapping
from typing import Any, cast

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.requests.authorization import AllowEverything, Operation, ResourceType, authorized_operations
from broker.security.acl_authorizer import parse_super_users
from broker.security.acl_store import (
    notification_of,
    path_of,
    read_extended_notification,
    read_literal_notification,
)
from broker.security.acls import ALLOW, DENY, LITERAL, PREFIXED, Entry, Pattern, decode_entries, encode_entries
from broker.security.authorizers import OwnAuthorizer, make_authorizer, may_decide_inline
from network.server.connection_info import ConnectionInfo
from timer.clock import ManualClock

BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}
CALLER = ConnectionInfo("id", principal="User:alice", client_host="10.0.0.1")


def config_with(class_name: str, **more: str) -> KafkaConfig:
    return KafkaConfig({**BASE, "authorizer.class.name": class_name, **more})


def made(config: KafkaConfig) -> Any:
    unused = cast(Any, None)
    return make_authorizer(config, unused, ManualClock(), unused)


class OnlyAlice:
    def configure(self, configs: Mapping[str, str]) -> None:
        self.topic = configs["my.topic"]

    def authorize(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType, name: str) -> Any:
        if name == "broken":
            raise RuntimeError("no answer")
        if name == "otherwise":
            raise RuntimeError("no answer either")
        if name == "exit":
            raise SystemExit("ends the thread that asks, if nobody stops it")
        if name == "odd":
            return "yes"
        return connection.principal == "User:alice" and name == self.topic


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    own = types.ModuleType("own_authorizers")
    own.OnlyAlice = OnlyAlice  # type: ignore[attr-defined]
    own.Nothing = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_authorizers", own)
    return "own_authorizers"


def test_nobody_is_asked_without_one() -> None:
    assert isinstance(made(KafkaConfig(BASE)), AllowEverything)


def test_one_of_the_users_own(module: str) -> None:
    config = config_with(f"{module}:OnlyAlice", **{"my.topic": "t"})
    authorizer = made(config)
    assert isinstance(authorizer, OwnAuthorizer)
    assert not may_decide_inline(config)
    assert authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, "other")
    assert not authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, "odd"), "only True lets it pass"
    assert not authorizer.authorize_any(CALLER, Operation.WRITE, ResourceType.TOPIC)
    assert authorized_operations(authorizer, CALLER, ResourceType.GROUP, "t") != 0
    authorizer.close()


def test_nothing_is_let_in_while_it_raises(module: str, caplog: pytest.LogCaptureFixture) -> None:
    authorizer = made(config_with(f"{module}:OnlyAlice", **{"my.topic": "broken"}))
    with caplog.at_level(logging.ERROR):
        assert not authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, "broken")
        assert authorized_operations(authorizer, CALLER, ResourceType.TOPIC, "broken") == 0
        assert not authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, "exit")
    assert "is denied" in caplog.text
    assert "no answer" in caplog.text


def test_one_that_always_raises_writes_one_traceback_for_each_way_to_fail(
    module: str, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer = made(config_with(f"{module}:OnlyAlice", **{"my.topic": "t"}))
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            for name in ("broken", "otherwise", "exit"):
                assert not authorizer.authorize(CALLER, Operation.READ, ResourceType.TOPIC, name)
    assert len(caplog.records) == 300
    assert caplog.text.count("Traceback") == 3
    assert "READ of TOPIC 'exit' is denied (SystemExit at " in caplog.records[-1].getMessage()
    assert not caplog.records[-1].getMessage().count("\n")


@pytest.mark.parametrize("name", ["missing_module:Class", "own_authorizers:Missing", "own_authorizers:Nothing"])
def test_one_that_cannot_be_used_ends_the_start(module: str, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        made(config_with(name))


def test_one_whose_configuration_fails_ends_the_start(module: str) -> None:
    with pytest.raises(ConfigError, match=r"my\.topic"):
        made(config_with(f"{module}:OnlyAlice"))


def test_classes_of_java_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be honoured"):
        config_with("org.apache.kafka.metadata.authorizer.StandardAuthorizer")


def test_acls_are_kept_in_one_zookeeper_and_super_users_have_types() -> None:
    name = "kafka.security.authorizer.AclAuthorizer"
    with pytest.raises(ConfigError, match=r"authorizer\.zookeeper\.url"):
        made(config_with(name, **{"authorizer.zookeeper.url": "elsewhere:2181"}))
    with pytest.raises(ConfigError, match=r"super\.users"):
        made(config_with(name, **{"super.users": "admin"}))
    assert parse_super_users(" User:a;User:CN=b,O=c:d ;") == {"User:a", "User:CN=b,O=c:d"}


@pytest.mark.parametrize(
    ("pattern", "path", "changes", "data"),
    [
        (Pattern(5, "a:b*"), "/kafka-acl/TransactionalId/a:b*", "/kafka-acl-changes", b"TRANSACTIONAL_ID:a:b*"),
        (
            Pattern(2, 'a"b', PREFIXED),
            '/kafka-acl-extended/prefixed/Topic/a"b',
            "/kafka-acl-extended-changes",
            b'{"version":1,"resourceType":"TOPIC","name":"a\\"b","patternType":"PREFIXED"}',
        ),
    ],
)
def test_paths_and_notifications(pattern: Pattern, path: str, changes: str, data: bytes) -> None:
    assert path_of(pattern) == path
    assert notification_of(pattern) == (changes, data)
    read = read_literal_notification if pattern.pattern_type == LITERAL else read_extended_notification
    assert read(data) == pattern


def test_entries_survive_their_znode() -> None:
    entries = frozenset({Entry("User:ü\"',", "*", 2, ALLOW), Entry("User:*", "10.0.0.1", 12, DENY)})
    assert decode_entries(encode_entries(entries)) == entries
    assert decode_entries(None) == decode_entries(b"") == frozenset()
    other_case = encode_entries([Entry("User:a", "*", 10, ALLOW)]).replace(b"Allow", b"ALLOW").replace(b"Desc", b"desc")
    assert decode_entries(other_case) == {Entry("User:a", "*", 10, ALLOW)}


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"version":2,"acls":[]}', b"nonsense", b'{"version":1,"acls":[{"principal":"x"}]}', b'{"version":1}'],
)
def test_znodes_that_say_nothing_readable(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_entries(data)
