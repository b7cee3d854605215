"""What makes and deletes topics in one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.topics.auto_topic_creation import AutoTopicCreation
from broker.topics.topic_admin import TopicAdmin, validator
from controller.zk.admin import AdminZkClient
from timer.purgatory import DelayedOperation, Purgatory
from timer.timer import SystemTimer

if TYPE_CHECKING:
    from broker.requests.context import BrokerContext


def make_topic_admin(context: BrokerContext) -> TopicAdmin:
    """Sets what belongs to it on the context."""
    config = context.config
    context.zk_admin = AdminZkClient(
        context.zk,
        chance=context.chance,
        use_topic_ids=config.version.uses_topic_ids,
        validate_topic_config=validator(config),
    )
    purgatory: Purgatory[DelayedOperation] = Purgatory(
        "topic",
        SystemTimer("topic", context.clock, workers=context.workers),
        broker_id=config.broker_id,
        metrics=context.metrics,
        workers=context.workers,
    )
    context.topic_admin = TopicAdmin(config, context.zk_admin, context.metadata_cache, purgatory, context.chance)
    context.auto_topic_creation = AutoTopicCreation(
        config,
        context.topic_admin,
        context.clock,
        lambda: context.is_controller,
    )
    return context.topic_admin
