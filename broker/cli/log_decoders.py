"""Texts of the records in `__consumer_offsets` and `__transaction_state`, as Kafka's dump tool prints them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, Protocol

from log.records.record import Record
from network.protocol.errors import ProtocolError
from network.protocol.message import payload_version
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from network.protocol.messages.group_metadata_key import GroupMetadataKey
from network.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from network.protocol.messages.offset_commit_key import OffsetCommitKey
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from network.protocol.messages.transaction_log_key import TransactionLogKey
from network.protocol.messages.transaction_log_value import TransactionLogValue

DELETE = "<DELETE>"
_GROUP_KEY = 2
_TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def offsets_decoder(record: Record) -> tuple[str | None, str | None]:
    """Key and payload of a record of `__consumer_offsets`."""
    if record.key is None:
        return "<NULL>", None
    try:
        version = payload_version(record.key)
        if version < _GROUP_KEY:
            offset_key = OffsetCommitKey.decode_versioned(record.key)
            data: dict[str, Any] = {
                "group": offset_key.group,
                "topic": offset_key.topic,
                "partition": offset_key.partition,
            }
            value = _offset_value
        elif version == _GROUP_KEY:
            data = {"group": GroupMetadataKey.decode_versioned(record.key).group}
            value = _group_value
        else:
            return f"unknown::version={version}", None
        key = _json({"type": str(version), "data": data})
        if record.value is None:
            return key, DELETE
        return key, _json({"version": str(payload_version(record.value)), "data": value(record.value)})
    except ProtocolError as error:
        return f"<unreadable: {error}>", None


def _offset_value(data: bytes) -> dict[str, Any]:
    version = payload_version(data)
    value = OffsetCommitValue.decode_versioned(data)
    fields: dict[str, Any] = {"offset": value.offset}
    if version >= 3:
        fields["leaderEpoch"] = value.leader_epoch
    fields |= {"metadata": value.metadata, "commitTimestamp": value.commit_timestamp}
    if version == 1:
        fields["expireTimestamp"] = value.expire_timestamp
    return fields


def _group_value(data: bytes) -> dict[str, Any]:
    version = payload_version(data)
    value = GroupMetadataValue.decode_versioned(data)
    fields: dict[str, Any] = {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
    }
    if version >= 2:
        fields["currentStateTimestamp"] = value.current_state_timestamp
    consumers = value.protocol_type == "consumer"
    fields["members"] = [_member(member, version, consumers) for member in value.members]
    return fields


def _member(member: MemberMetadata, version: int, consumers: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"memberId": member.member_id}
    if version >= 3:
        fields["groupInstanceId"] = member.group_instance_id
    fields |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        fields["rebalanceTimeout"] = member.rebalance_timeout
    fields["sessionTimeout"] = member.session_timeout
    subscription, assignment = bytes(member.subscription), bytes(member.assignment)
    try:
        if not consumers:
            raise ProtocolError("not a consumer group")
        fields["subscription"] = _subscription(subscription)
        fields["assignment"] = _assignment(assignment)
    except ProtocolError:
        fields |= {"subscription": _base64(subscription), "assignment": _base64(assignment)}
    return fields


def _subscription(data: bytes) -> dict[str, Any] | str:
    if not data:
        return ""
    value = ConsumerProtocolSubscription.decode_versioned(data)
    return {
        "topics": value.topics,
        "userData": _base64(value.user_data),
        "ownedPartitions": _partitions(value.owned_partitions),
        "generationId": value.generation_id,
        "rackId": value.rack_id or "",
    }


def _assignment(data: bytes) -> dict[str, Any] | str:
    if not data:
        return ""
    value = ConsumerProtocolAssignment.decode_versioned(data)
    return {"assignedPartitions": _partitions(value.assigned_partitions), "userData": _base64(value.user_data)}


class _TopicPartitions(Protocol):
    topic: str
    partitions: list[int]


def _partitions(found: Iterable[_TopicPartitions]) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partitions": one.partitions} for one in found]


def _base64(data: bytes | memoryview | None) -> str:
    return "" if data is None else base64.b64encode(data).decode()


def transaction_log_decoder(record: Record) -> tuple[str | None, str | None]:
    """Key and payload of a record of `__transaction_state`."""
    if record.key is None:
        return "<NULL>", None
    try:
        if payload_version(record.key) != 0:
            return f"unknown::version={payload_version(record.key)}", None
        key = f"transaction_metadata::transactionalId={TransactionLogKey.decode_versioned(record.key).transactional_id}"
        if record.value is None:
            return key, DELETE
        value = TransactionLogValue.decode_versioned(record.value)
    except ProtocolError as error:
        return f"<unreadable: {error}>", None
    status = value.transaction_status
    state = _TRANSACTION_STATES[status] if 0 <= status < len(_TRANSACTION_STATES) else f"unknown({status})"
    partitions = [
        f"{one.topic}-{partition}" for one in value.transaction_partitions or () for partition in one.partition_ids
    ]
    return key, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state},"
        f"partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
