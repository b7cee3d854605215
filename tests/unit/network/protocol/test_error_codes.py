"""The error codes of answers, as Apache Kafka counts them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from network.protocol.api import API, ApiKey
from network.protocol.messages import (
    add_partitions_to_txn,
    create_topics,
    delete_acls,
    fetch,
    find_coordinator,
    leader_and_isr,
    metadata,
    offset_fetch,
    produce,
    stop_replica,
)


def codes(message: Any) -> dict[int, int]:
    return dict(Counter(API[message.API_KEY].error_codes(message)))


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_every_api_has_a_rule(key: ApiKey) -> None:
    assert set(API[key].error_codes(API[key].response())) <= {0}


def test_every_partition_counts() -> None:
    partitions = [produce.PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate((0, 3, 3))]
    topics = [produce.TopicProduceResponse(name=name, partition_responses=partitions) for name in "ab"]
    assert codes(produce.ProduceResponse(responses=topics)) == {0: 2, 3: 4}


def test_the_code_at_the_top_counts_too() -> None:
    parts = [fetch.PartitionData(partition_index=0, error_code=1)]
    answer = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=parts)])
    assert codes(answer) == {0: 1, 1: 1}
    known = [metadata.MetadataResponsePartition(error_code=5), metadata.MetadataResponsePartition(error_code=0)]
    topic = metadata.MetadataResponseTopic(name="t", error_code=3, partitions=known)
    assert codes(metadata.MetadataResponse(topics=[topic])) == {0: 1, 3: 1, 5: 1}


def test_a_code_that_older_versions_have_counts_only_there() -> None:
    assert codes(find_coordinator.FindCoordinatorResponse(error_code=15)) == {15: 1}
    found = [find_coordinator.Coordinator(key="a"), find_coordinator.Coordinator(key="b", error_code=15)]
    assert codes(find_coordinator.FindCoordinatorResponse(coordinators=found)) == {0: 1, 15: 1}
    assert codes(offset_fetch.OffsetFetchResponse(error_code=16)) == {16: 1}
    group = offset_fetch.OffsetFetchResponseGroup(group_id="g", error_code=16)
    assert codes(offset_fetch.OffsetFetchResponse(groups=[group])) == {16: 1}
    assert codes(add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=14)) == {14: 1}


def test_what_repeats_another_code_does_not_count() -> None:
    topic = create_topics.CreatableTopicResult(name="t", topic_config_error_code=29)
    assert codes(create_topics.CreateTopicsResponse(topics=[topic])) == {0: 1}
    matching = delete_acls.DeleteAclsMatchingAcl(error_code=31)
    result = delete_acls.DeleteAclsFilterResult(matching_acls=[matching])
    assert codes(delete_acls.DeleteAclsResponse(filter_results=[result])) == {0: 1}


def test_an_error_at_the_top_is_that_of_every_partition() -> None:
    errors = [stop_replica.StopReplicaPartitionError(topic_name="t", partition_index=i) for i in range(2)]
    assert codes(stop_replica.StopReplicaResponse(error_code=11, partition_errors=errors)) == {11: 3}
    assert codes(stop_replica.StopReplicaResponse(partition_errors=errors)) == {0: 3}
    assert codes(leader_and_isr.LeaderAndIsrResponse(error_code=11)) == {11: 1}
