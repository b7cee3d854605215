"""What the console may change where `odradek.console.write` is true: five things, each as its user, by the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.cli.errors import CommandError
from broker.cli.group_offsets import Target, commit_offsets, committed_offsets, new_offsets
from broker.cli.group_view import view
from broker.config.admin import DELETE, SET, TOPIC_RESOURCE
from broker.http.console.api.question import Question, cluster_refused, refused
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from broker.http.console.room import Reader

TIMEOUT_MS = 5_000
MAX_CONFIGS = 50
MAX_PARTITIONS = 10_000
_TARGETS = ("to_earliest", "to_latest", "to_offset", "to_datetime", "shift_by")


def create_topic(client: ClusterClient, question: Question) -> Any:
    """A new topic. Without partitions or replicas it has the broker's defaults."""
    wanted = CreatableTopic(
        name=question.text("name", maximum=249),
        num_partitions=question.number("partitions", -1, low=-1, high=MAX_PARTITIONS),
        replication_factor=question.number("replicas", -1, low=-1, high=32_767),
        configs=[
            CreatableTopicConfig(name=name, value=str(value))
            for name, value in question.map("configs", MAX_CONFIGS).items()
        ],
    )
    answer = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
    (result,) = answer.topics
    _check(result.error_code, result.error_message)
    return {}


def delete_topic(client: ClusterClient, question: Question) -> Any:
    """A topic and all that is in it; its name is given twice."""
    name = question.text("name")
    _confirmed(question, name)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=TIMEOUT_MS
    )  # fmt: skip
    (result,) = client.call_controller(request).responses
    _check(result.error_code, result.error_message)
    return {}


def alter_config(client: ClusterClient, question: Question) -> Any:
    """One key of one topic; without a value it goes back to its default."""
    name, value = question.text("key"), question.text("value", maximum=10_000)
    resets = bool(question.number("reset", 0, high=1))
    change = AlterableConfig(
        name=name,
        config_operation=DELETE if resets else SET,
        value=None if resets else value,
    )
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=question.text("topic"), configs=[change]
    )
    (result,) = client.call_controller(IncrementalAlterConfigsRequest(resources=[resource])).responses
    _check(result.error_code, result.error_message)
    return {}


def delete_records(client: ClusterClient, question: Question) -> Any:
    """The records of one partition before an offset, -1 for all that there are; the topic's name is given twice."""
    name = question.text("topic")
    _confirmed(question, name)
    number = question.number("partition", high=2**31 - 1)
    before = DeleteRecordsPartition(partition_index=number, offset=question.number("before", low=-1))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[before])], timeout_ms=TIMEOUT_MS
    )  # fmt: skip
    (topic,) = client.call_leader(name, number, request, TIMEOUT_MS + 2_000).topics
    (result,) = topic.partitions
    _check(result.error_code, None)
    return {"first": result.low_watermark}


def reset_offsets(client: ClusterClient, question: Question) -> Any:
    """Where a group without members goes on in one topic; `execute` 0 only says where that would be."""
    group, topic = question.text("group"), question.text("topic")
    target = Target(question.one_of("target", _TARGETS), question.number("value", 0, low=-(2**63)))
    found = view(client, group)
    if found.state not in ("Empty", "Dead"):
        raise cluster_refused(f"The group is {found.state}: its members must be gone before its offsets can be set.")
    known = client.metadata([topic]).topics.get(topic)
    if known is None or known.error is not ErrorCode.NONE:
        raise cluster_refused("There is no such topic, or you may not see it.")
    partitions = [TopicPartition(topic, number) for number in known.partitions]
    try:
        committed = committed_offsets(client, group)
        if target.kind == "shift_by":
            partitions = [tp for tp in partitions if tp in committed]
        offsets = new_offsets(client, partitions, committed, target)
    except CommandError as error:
        raise cluster_refused(str(error)) from None
    if question.number("execute", 0, high=1):
        for code in commit_offsets(client, group, offsets):
            _check(code, None)
    return {"offsets": [[tp.partition, committed.get(tp), offset] for tp, offset in sorted(offsets.items())]}


def _confirmed(question: Question, name: str) -> None:
    if question.text("confirm", "") != name:
        raise refused("the name has to be given once more, to confirm it")


def _check(code: int, message: str | None) -> None:
    if code:
        error = ErrorCode.of(code)
        raise cluster_refused(f"{message or error.message} ({error.name})")


CHANGES: dict[str, Reader] = {
    "create-topic": create_topic,
    "delete-topic": delete_topic,
    "alter-config": alter_config,
    "delete-records": delete_records,
    "reset-offsets": reset_offsets,
}
"""All of them, by the name under which the page asks for them."""
