"""All of Kafka's znodes behind one object: what the broker and the controller use."""

from __future__ import annotations

from controller.zk.brokers import BrokerZnodes
from controller.zk.configs import ConfigZnodes
from controller.zk.consumers import ConsumerZnodes
from controller.zk.notifications import NotificationZnodes
from controller.zk.tokens import TokenZnodes
from controller.zk.topics import TopicZnodes


class ZkClient(BrokerZnodes, TopicZnodes, ConfigZnodes, NotificationZnodes, ConsumerZnodes, TokenZnodes):
    """Typed operations over one `Session`. Thread-safe as the session is.

    Errors: `ZkError` (and its `SessionExpiredError`, `AuthenticationFailedError`), `PayloadError` for content that
    cannot be read, `ControllerMovedError` when a fence fails.
    """
