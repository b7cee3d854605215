"""What a user may see beyond what brokers filter themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from network.protocol.messages.describe_cluster import DescribeClusterRequest

if TYPE_CHECKING:
    from broker.http.console.api.question import Question
    from network.client.cluster_client import ClusterClient

_DESCRIBE = 8
_UNKNOWN = -(2**31)


def may_look_inside(client: ClusterClient, _question: Question) -> Any:
    """Whether the user has `Describe` on the cluster, without which sizes of replicas are not told either (KIP-430)."""
    answer = client.call_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
    operations = answer.cluster_authorized_operations
    return {"internals": operations != _UNKNOWN and bool(operations >> _DESCRIBE & 1)}
