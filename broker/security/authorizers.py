"""Which authorizer a broker has: `authorizer.class.name`.

Kafka's `AclAuthorizer`, or an object of one's own, named as `package.module:Class`, for which the protocol is:

    class MyAuthorizer:
        def configure(self, configs): ...      # optional; the broker's properties as texts, also those it does not know
        def authorize(self, connection, operation, resource, name): ...   # True lets it pass, everything else does not
        def authorize_any(self, connection, operation, resource): ...     # optional, without it False
        def close(self): ...                   # optional

`connection` is a `ConnectionInfo`, `operation` an `Operation`, `resource` a `ResourceType`. It is asked from many
threads and should answer in microseconds. While it raises, nothing is let in.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from broker.config.keys import ConfigError
from broker.requests.authorization import AllowEverything, Operation, ResourceType
from broker.security.acl_authorizer import (
    ALLOW_IF_NO_ACL,
    SUPER_USERS,
    ZOOKEEPER_URL,
    AclAuthorizer,
    parse_super_users,
)
from network.plugins import make_configured

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from controller.zk.client import ZkClient
    from network.server.connection_info import ConnectionInfo
    from timer.clock import Clock
    from timer.worker import Workers

logger = logging.getLogger(__name__)

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
CLASS_NAME: Final = "authorizer.class.name"
_MOST_TRACEBACKS: Final = 20


class OwnAuthorizer:
    """An object of the user's own, whose failures are denials."""

    allows_everything = False

    def __init__(self, authorizer: Any) -> None:
        self._authorizer = authorizer
        self._failures: set[tuple[type[BaseException], str]] = set()

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        explicit: bool = True,
    ) -> bool:
        try:
            return self._authorizer.authorize(connection, operation, resource, name) is True
        except BaseException as error:  # SystemExit would end the thread that asks
            self._note(error, f"{operation.name} of {resource.name} {name!r}")
            return False

    def authorize_any(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType) -> bool:
        try:
            ask = getattr(self._authorizer, "authorize_any", None)
            return ask is not None and ask(connection, operation, resource) is True
        except BaseException as error:
            self._note(error, f"{operation.name} of any {resource.name}")
            return False

    def _note(self, error: BaseException, what: str) -> None:
        """One line, with the traceback the first time that it fails at this place in this way: it may fail at each of
        many thousand requests a second."""
        way = (type(error), _place(error))
        is_new = way not in self._failures and len(self._failures) < _MOST_TRACEBACKS
        if is_new:
            self._failures.add(way)
        said = "" if is_new else f" ({type(error).__name__} at {way[1]})"
        logger.error("the authorizer failed: %s is denied%s", what, said, exc_info=error if is_new else None)

    def close(self) -> None:
        """Let it end what it has."""
        close = getattr(self._authorizer, "close", None)
        if close is not None:
            close()


def _place(error: BaseException) -> str:
    """File and line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def load_own(name: str, config: KafkaConfig) -> OwnAuthorizer:
    """Make and configure the object that `package.module:Class` names. Raises `ConfigError`."""
    try:
        # One without `authorize` would deny everything, and say so at every request.
        made = make_configured(CLASS_NAME, name, "authorize", config.originals)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return OwnAuthorizer(made)


def may_decide_inline(config: KafkaConfig) -> bool:
    """Whether decisions never wait. An authorizer of the user's own may, so no event loop runs it."""
    return ":" not in config.get_str(CLASS_NAME)


def make_authorizer(
    config: KafkaConfig, zk: ZkClient, clock: Clock, workers: Workers
) -> AclAuthorizer | OwnAuthorizer | AllowEverything:
    """The authorizer that is asked for, ready to decide. Raises `ConfigError` and `ZkError`."""
    name = config.get_str(CLASS_NAME).strip()
    if not name:
        return AllowEverything()
    if ":" in name:
        return load_own(name, config)
    if name != ACL_AUTHORIZER:
        raise ConfigError(f"{CLASS_NAME}: there is no {name} here, only {ACL_AUTHORIZER} and package.module:Class")
    originals = config.originals
    url = originals.get(ZOOKEEPER_URL, "").strip()
    if url and url != config.get_str("zookeeper.connect"):
        raise ConfigError(f"{ZOOKEEPER_URL} cannot be honoured: ACLs are kept where zookeeper.connect says")
    try:
        super_users = parse_super_users(originals.get(SUPER_USERS, ""))
    except ValueError as error:
        raise ConfigError(f"{SUPER_USERS}: {error}") from error
    made = AclAuthorizer(
        zk,
        clock,
        super_users=super_users,
        allow_if_no_acl=originals.get(ALLOW_IF_NO_ACL, "false").strip().lower() == "true",
        knows_prefixes=config.version.at_least("2.0-IV1"),
        workers=workers,
    )
    made.start()
    return made
