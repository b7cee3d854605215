"""The named list of requests that a processor may run itself.

Nothing on it may wait: no compression, no decompression, no fsync, no ZooKeeper, no cold read. (Sending a range that is
not in the page cache is the network layer's affair.) And nothing on it may be long: what is decoded here, or asks for
very many partitions, would stop every connection of the listener.
"""

from __future__ import annotations

from broker.api.metadata import creates_topics_of
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC
from broker.fetching.old_consumers import FIRST_VERSION_OF_MAGIC_2
from broker.requests.context import BrokerContext
from broker.requests.produce_outline import has_more_than
from log.config import MAX_INT64
from log.records.batch import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC_OFFSET
from network.protocol.api import ApiKey
from network.server.inline import InlineRule, at_most
from network.server.request import Request

MAX_PRODUCE_BYTES = 1 << 20
MAX_PRODUCE_PARTITIONS = 100
"""Of a request beyond `OUTLINE_ABOVE`: decoded and appended in some milliseconds."""
OUTLINE_ABOVE = 1 << 14
"""Bytes of a Produce that can hold very many partitions; what is smaller holds less than 500."""
MAX_BYTES = 1 << 16
"""Of a request without records, before it is decoded: some milliseconds."""
MAX_COMMIT_BYTES = 1 << 12
"""About a hundred offsets."""
MAX_METADATA_TOPICS = 100
MAX_SESSION_PARTITIONS = 1_000
_CODEC_AT = ATTRIBUTES_OFFSET + 1
_NOT_INLINE = 0x07 | 0x10  # compressed or transactional
_AS_IT_IS = ("producer", "uncompressed")


def inline_rule(broker: BrokerContext) -> InlineRule:
    compresses_offsets = broker.config.get_int("offsets.topic.compression.codec") != 0

    def produce(request: Request) -> bool:
        """Uncompressed batches of the current format, for topics that neither compress them nor are flushed record by
        record."""
        if request.size > OUTLINE_ABOVE and (
            request.size > MAX_PRODUCE_BYTES
            or has_more_than(MAX_PRODUCE_PARTITIONS, request.body, request.header.api_version)
        ):
            return False
        for topic in request.message.topic_data:
            for data in topic.partition_data:
                records = data.records
                if records is None or len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != 2:
                    return False
                if records[_CODEC_AT] & _NOT_INLINE:
                    return False
                log = broker.replica_manager.partitions.log_of(topic.name, data.index)
                if log is None:
                    return False
                config = log.config
                if config.flush_messages != MAX_INT64:
                    return False
                if not config.stores_as_sent and (config.compact or config.compression_type not in _AS_IT_IS):
                    return False
        return True

    def fetch(request: Request) -> bool:
        """Also what a session has from before: a request of 40 bytes may ask for very many partitions. For clients of
        old the records have to be read and rewritten."""
        if request.size > MAX_BYTES or request.header.api_version < FIRST_VERSION_OF_MAGIC_2:
            return False
        session_id = request.message.session_id
        return session_id <= 0 or broker.fetch_manager.size_of(session_id) <= MAX_SESSION_PARTITIONS

    def offset_commit(request: Request) -> bool:
        """Offsets that are appended without compression; those of version 0 are ZooKeeper's."""
        if request.size > MAX_COMMIT_BYTES or request.header.api_version == 0 or compresses_offsets:
            return False
        partition = broker.group_coordinator.partition_for(request.message.group_id)
        log = broker.replica_manager.partitions.log_of(OFFSETS_TOPIC, partition)
        if log is None or log.config.flush_messages != MAX_INT64:
            return False
        return log.config.compression_type in _AS_IT_IS

    def metadata(request: Request) -> bool:
        if request.size > MAX_BYTES:
            return False
        topics = request.message.topics
        known = len(broker.metadata_cache.snapshot.topics)
        if topics is None:
            return known <= MAX_METADATA_TOPICS
        return len(topics) <= MAX_METADATA_TOPICS and not creates_topics_of(broker, request.message)

    return InlineRule(
        {
            ApiKey.PRODUCE: produce,
            ApiKey.FETCH: fetch,
            ApiKey.API_VERSIONS: at_most(MAX_BYTES),
            ApiKey.METADATA: metadata,
            ApiKey.OFFSET_COMMIT: offset_commit,
            ApiKey.HEARTBEAT: at_most(MAX_BYTES),
        }
    )
