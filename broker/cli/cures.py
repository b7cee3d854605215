"""What a person can do about an error of the protocol or of a connection, in a few words behind the error itself."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

from network.client.cluster_client import parse_bootstrap
from network.client.connection import AuthenticationFailed
from network.protocol.errors import ErrorCode, ProtocolError

_ACL = "ask for an ACL that allows it, or connect as another user"
_REPLICAS = "start the brokers that are away, or lower min.insync.replicas; `odradek cluster health` shows them"
_HEALTH = "`odradek cluster health` shows what is wrong"

CURES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`odradek topics list` shows the topics",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or leave it be with --if-not-exists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has letters, digits, '.', '_' and '-'",
    ErrorCode.INVALID_REPLICATION_FACTOR: "start more brokers, or give a smaller --replication-factor",
    ErrorCode.INVALID_PARTITIONS: "partitions can only be added",
    ErrorCode.INVALID_CONFIG: "docs/configuration.md lists the keys and what they take",
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; `odradek groups describe --members` shows them",
    ErrorCode.GROUP_ID_NOT_FOUND: "`odradek groups list` shows the groups",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read the topic first",
    ErrorCode.NOT_ENOUGH_REPLICAS: _REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _REPLICAS,
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise max.message.bytes of the topic",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send smaller batches, or raise segment.bytes of the topic",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`odradek get-offsets` shows the last offsets, with --time earliest the first",
    ErrorCode.BROKER_NOT_AVAILABLE: "`odradek brokers list` shows the brokers",
    ErrorCode.LEADER_NOT_AVAILABLE: _HEALTH,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: f"{_HEALTH}; fewer than three brokers need offsets.topic.replication.factor=1 "
    "and transaction.state.log.replication.factor=1",
    ErrorCode.REQUEST_TIMED_OUT: _HEALTH,
    ErrorCode.KAFKA_STORAGE_ERROR: "`odradek log-dirs` shows the directory that has failed",
    ErrorCode.UNSUPPORTED_VERSION: "`odradek api-versions` shows what the brokers serve",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "`odradek reassign list` shows it; wait, or cancel it",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _ACL,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _ACL,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _ACL,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ACL,
    ErrorCode.SECURITY_DISABLED: "set authorizer.class.name on the brokers",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "correct user name and password",
    ErrorCode.RESOURCE_NOT_FOUND: "`odradek users list` shows the users",
}

_NOT_KAFKA = (
    "what listens there wants a login or TLS (--command-config), or does not speak Kafka's protocol: is it ZooKeeper's "
    "port, or a web server's?"
)


def unreachable(servers: str, error: BaseException) -> str:
    """One line about brokers that could not be reached."""
    causes = list(_causes(error))
    text = f"{servers}: {error}"
    trusted = "CERTIFICATE_VERIFY_FAILED" not in text
    if trusted and any(isinstance(each, AuthenticationFailed) for each in causes):
        return f"{text}; correct user name and password in the file of --command-config"
    where = next((found for each in causes if (found := re.search(r"cannot connect to (\S+):(\d+)", str(each)))), None)
    if any(isinstance(each, socket.gaierror) for each in causes):
        cure = "the name is not known: correct it, or the name service"
    elif "CERTIFICATE_REQUIRED" in text:
        cure = (
            "the broker wants a certificate of yours: name it in ssl.keystore.location in the file of --command-config"
        )
    elif not trusted:
        cure = (
            "the broker's certificate is of another name or authority: correct the address, or ssl.truststore.location "
            "in the file of --command-config"
        )
    elif any(isinstance(each, ssl.SSLError) for each in causes):
        cure = "no TLS comes about: correct security.protocol and ssl.* in the file of --command-config, or the port"
    elif any(isinstance(each, ConnectionRefusedError) for each in causes):
        cure = "nothing listens there: start the broker, or correct the address"
    elif any(isinstance(each, ProtocolError) for each in causes) or "closed by the peer" in text:
        cure = _NOT_KAFKA
    else:
        cure = "is the broker running, and the way there open?"
    if where is not None and not _is_named(servers, where[1], int(where[2])):
        cure = (
            f"the brokers say that clients reach them at {where[1]}:{where[2]}, which does not work from here: correct "
            "advertised.listeners"
        )
    return f"{text}; {cure}"


def _is_named(servers: str, host: str, port: int) -> bool:
    return any((each.host, each.port) == (host, port) for each in parse_bootstrap(servers))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
