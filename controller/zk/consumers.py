"""Offsets of consumers that keep them in ZooKeeper: OffsetCommit and OffsetFetch of version 0."""

from __future__ import annotations

from controller.zk import paths
from controller.zk.access import ZnodeAccess, expect
from controller.zk.ops import Code, SetData
from log.topic_partition import TopicPartition


class ConsumerZnodes(ZnodeAccess):
    """`/consumers/<group>/offsets/<topic>/<partition>`, decimal text."""

    def consumer_offset(self, group: str, partition: TopicPartition) -> int | None:
        """The offset, or None if there is none. Raises ValueError for content that is no number."""
        found = self.read(paths.consumer_offset(group, partition))
        return None if found is None or found[0] is None else int(found[0])

    def set_consumer_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        path, data = paths.consumer_offset(group, partition), str(offset).encode()
        (response,) = self.session.submit([SetData(path, data)])
        if response.code is Code.NO_NODE:
            self.create_recursive(path, data)
        else:
            expect(response, path)
