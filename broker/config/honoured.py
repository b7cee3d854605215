"""Which keys' promises this broker does not keep, and what happens instead.

A key that stands in no table here is honoured. One that is not honoured does no harm while it has its default value.
With another value it is refused where safety rests on it (who may do what, who can read along, where data is kept):
no broker then starts, and no dynamic change is taken. Where nothing rests on it, it is taken with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import ConfigError, parse_value
from network.oauth.keys import LOGIN_KEYS
from network.tls.settings import KEYS as TLS_KEYS

OWN_LISTENER_KEYS = frozenset({"num.network.threads", "max.connections", "max.connection.creation.rate"})
"""Keys that a listener may have a value of its own for, as `listener.name.<listener>.<key>`."""

OF_MECHANISMS = frozenset(
    {"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.server.callback.handler.class"}
)
"""Keys that are read as `listener.name.<listener>.<mechanism>.<key>` alone."""

SASL_LISTENER_KEYS = OF_MECHANISMS | {
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "sasl.client.callback.handler.class",
    "sasl.enabled.mechanisms",
    *LOGIN_KEYS,
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.server.max.receive.size",
}
"""Keys of SASL that a listener, or a mechanism of it, may have a value of its own for."""

TLS_LISTENER_KEYS = frozenset({*TLS_KEYS, "ssl.principal.mapping.rules"})
"""Keys of TLS that a listener may have a value of its own for."""


class Unkept(NamedTuple):
    """What holds in place of a key's promise; `refused`: nobody may rely on the key."""

    refused: bool
    instead: str


def _rows(refused: bool, instead: str, names: str) -> dict[str, Unkept]:
    return dict.fromkeys(names.split(), Unkept(refused, instead))


def _refused(instead: str, names: str) -> dict[str, Unkept]:
    return _rows(True, instead, names)


def _warned(instead: str, names: str) -> dict[str, Unkept]:
    return _rows(False, instead, names)


_KRAFT = "the key belongs to KRaft mode and has no effect"
_SHARE = "share groups are not served"
_TIERED = "there is no tiered storage, all data stays in the log directories"
_METRICS = "metrics are kept with fixed windows and given to no reporter class"

NOT_HONOURED: dict[str, Unkept] = {
    # Who may do what.
    **_refused("policy classes are not run, every request would pass",
               "alter.config.policy.class.name create.topic.policy.class.name"),
    **_refused("principals are made as Kafka's default builder makes them", "principal.builder.class"),
    **_refused("Java security providers are not used", "security.providers"),
    # Who can read along.
    **_refused("TLS is OpenSSL's, other engines are not loaded", "ssl.engine.factory.class ssl.provider"),
    **_warned("TLS is OpenSSL's, which has no such choice", """
        ssl.keymanager.algorithm ssl.secure.random.implementation ssl.trustmanager.algorithm"""),
    **_warned("which versions are served is said by ssl.enabled.protocols", "ssl.protocol"),
    **_refused("clients of this broker log in by the options of their login module alone", "sasl.login.class"),
    **_warned("a key table gives a new ticket after half of the old one's life, a ticket cache is filled by others", """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor"""),
    **_warned("keys that could not be fetched are asked for again at a steady pace",
              "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    **_refused("nobody is asked whether ZooKeeper's certificate was revoked",
               "zookeeper.ssl.crl.enable zookeeper.ssl.ocsp.enable"),
    # Where data is kept.
    **_refused(_TIERED, "remote.log.storage.system.enable"),
    **_warned(_TIERED, """
        log.local.retention.bytes log.local.retention.ms remote.fetch.max.wait.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
        remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
        remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix"""),
    **_warned("records are kept in the format of Kafka 3.0 and newer", "log.message.format.version"),
    # What the cluster agrees on.
    **_refused("this broker cannot move to a KRaft cluster", "zookeeper.metadata.migration.enable"),
    **_warned(_KRAFT, """
        broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names
        controller.quorum.append.linger.ms controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.voters early.start.listeners eligible.leader.replicas.enable
        initial.broker.registration.timeout.ms log.dir.failure.timeout.ms max.request.partition.size.limit
        metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
        metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
        sasl.mechanism.controller.protocol server.max.startup.time.ms unclean.leader.election.interval.ms
        unstable.api.versions.enable unstable.feature.versions.enable zookeeper.metadata.migration.min.batch.size"""),
    # What is measured, limited and grouped.
    **_warned(_METRICS, """
        auto.include.jmx.reporter kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters
        metrics.num.samples metrics.recording.level metrics.sample.window.ms"""),
    **_warned("groups are kept by one coordinator that writes at once", """
        group.coordinator.append.linger.ms group.coordinator.new.enable group.coordinator.threads"""),
    **_warned(_SHARE, """
        group.share.delivery.count.limit group.share.enable group.share.heartbeat.interval.ms group.share.max.groups
        group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.size group.share.min.heartbeat.interval.ms
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms"""),
    **_warned("a connection attempt to another broker is given up after 10 seconds",
              "socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms"),
}  # fmt: skip

_OWN_CLASS = r"\w+(\.\w+)*:\w+"
_CLASSES = {
    "zookeeper.clientCnxnSocket": (
        re.compile(r"org\.apache\.zookeeper\.ClientCnxnSocket(Netty|NIO)"),
        "org.apache.zookeeper.ClientCnxnSocketNetty, or ClientCnxnSocketNIO without TLS",
    ),
    "client.quota.callback.class": (re.compile(rf"\s*({_OWN_CLASS})?\s*"), "a class of Python as package.module:Class"),
    "authorizer.class.name": (
        re.compile(rf"\s*(kafka\.security\.authorizer\.AclAuthorizer|{_OWN_CLASS})?\s*"),
        "kafka.security.authorizer.AclAuthorizer, or a class of Python as package.module:Class",
    ),
}
"""Keys that name a class, and which of them there are: no Java class is run."""

OF_THE_AUTHORIZER = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Keys that are the authorizer's, not the broker's."""

TOPIC_NOT_HONOURED: dict[str, Unkept] = {
    **_warned(_TIERED, "local.retention.bytes local.retention.ms remote.log.copy.disable remote.log.delete.on.disable"),
    **_refused(_TIERED, "remote.storage.enable"),
    **_warned(NOT_HONOURED["log.message.format.version"].instead, "message.format.version"),
}
"""The same for the keys of topics."""

_OF_LISTENERS = OWN_LISTENER_KEYS | SASL_LISTENER_KEYS | TLS_LISTENER_KEYS | NOT_HONOURED.keys()

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def plain_name(name: str) -> str:
    """The broker key that `listener.name.<listener>[.<mechanism>].<key>` sets for one listener; else `name`."""
    match = _LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return name
    key: str = match[1]
    if key not in BROKER_KEYS and key.partition(".")[2] in BROKER_KEYS:
        return key.partition(".")[2]
    return key


def check_honoured(name: str, text: str) -> None:
    """Raises `ConfigError`, naming the key, for a value whose promise would be broken in silence."""
    unkept = _unkept(name, text)
    if unkept is not None and unkept.refused:
        raise ConfigError(f"{name} is set, but cannot be honoured: {unkept.instead}")
    classes, accepted = _CLASSES.get(name, (None, ""))
    if classes is not None and not classes.fullmatch(text):
        raise ConfigError(f"{name} is set, but cannot be honoured: it takes {accepted}")


def warnings(properties: Mapping[str, str]) -> Iterator[str]:
    """A line for each key that is not honoured, or not known, and is set to more than its default."""
    for name, text in properties.items():
        plain = plain_name(name)
        if plain in OF_THE_AUTHORIZER:
            if not properties.get("authorizer.class.name", "").strip():
                yield f"{name} has no effect without authorizer.class.name"
        elif plain not in BROKER_KEYS:
            close = get_close_matches(plain, BROKER_KEYS, 1, 0.8)
            yield f"{name} is no key of this broker and has no effect" + (f"; is it {close[0]}?" if close else "")
        elif name in OF_MECHANISMS:
            yield f"{name} has no effect without the prefix listener.name.<listener>.<mechanism>."
        elif plain != name and plain not in _OF_LISTENERS:
            yield f"{name} has no effect: no listener has a value of its own for {plain}"
        else:
            unkept = _unkept(name, text)
            if unkept is not None and not unkept.refused:
                yield f"{name} is not honoured: {unkept.instead}"


def _unkept(name: str, text: str) -> Unkept | None:
    plain = plain_name(name)
    unkept = NOT_HONOURED.get(plain)
    if unkept is None:
        return None
    key = BROKER_KEYS[plain]
    return None if parse_value(key, text) == parse_value(key, key.default) else unkept
