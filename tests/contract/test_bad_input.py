"""Hostile and broken bytes on a raw socket: the error that Apache Kafka gives, or a closed connection; others go on."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.alter_configs import AlterConfigsRequest
from network.protocol.messages.alter_configs import AlterConfigsResource as AlterableResource
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from network.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from network.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support import wire
from tests.support.cluster import Broker, Cluster
from tests.support.sockets import RawClient, api_versions_frame

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


@pytest.fixture
def broker(cluster: Cluster) -> Iterator[Broker]:
    """The broker; afterwards a bystander's connection, opened before, and a new one must both be served."""
    (broker,) = cluster.brokers
    with wire.connected(broker) as bystander:
        bystander.call(wire.ASK_VERSIONS, 3)
        yield broker
        assert bystander.call(wire.ASK_VERSIONS, 3).error_code == 0
    assert wire.call(broker, wire.ASK_VERSIONS, 3).error_code == 0


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    yield client
    client.close()


def frame(body: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(body) if size is None else size) + body


def header(api_key: int, version: int, correlation_id: int = 7, client_id: bytes = b"bad") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


def metadata_body(count: int, *names: bytes) -> bytes:
    return struct.pack(">i", count) + b"".join(struct.pack(">h", len(name)) + name for name in names)


# Apache Kafka drops the socket of each of these without an answer.
CLOSED = {
    "negative length": frame(b"", -1),
    "most negative length": frame(b"", -(2**31)),
    "length above socket.request.max.bytes": frame(b"", 104_857_601),
    "largest length": frame(b"", 2**31 - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
    "empty frame": frame(b""),
    "frame too short for a header": frame(b"\x00\x12\x00"),
    "client id longer than the frame": frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 500) + b"x"),
    "unknown api key": frame(header(999, 0)),
    "negative api key": frame(header(-1, 0)),
    "version above the range": frame(header(METADATA, 99) + metadata_body(0)),
    "negative version": frame(header(METADATA, -1) + metadata_body(0)),
    "an api of other modes": frame(header(52, 0) + bytes(20)),
    "no body": frame(header(METADATA, 1)),
    "half a body": frame(header(METADATA, 1) + metadata_body(2, b"a")),
    "array count above the frame": frame(header(METADATA, 1) + metadata_body(2**31 - 1, b"a")),
    "string longer than the frame": frame(header(METADATA, 1) + struct.pack(">ih", 1, 30_000) + b"abc"),
    "null in a field that is never null": frame(header(METADATA, 1) + struct.pack(">ih", 1, -1)),
    "varint that never ends": frame(header(METADATA, 9) + b"\x00" + b"\xff" * 30),
    "negative array count": frame(header(PRODUCE, 3) + struct.pack(">hhii", -1, 1, 1000, -5)),
}


@pytest.mark.parametrize("what", CLOSED)
def test_the_connection_is_closed_and_logged(broker: Broker, raw: RawClient, what: str) -> None:
    before = broker.log_file.stat().st_size
    raw.send(CLOSED[what])
    assert raw.is_closed(), f"{what}: answered"
    if broker.kind == "odradek":
        assert broker.log_file.stat().st_size > before, f"{what}: nothing in the log"


@pytest.mark.parametrize(
    ("key", "version", "client_id", "said"),
    [
        (999, 4, b"old-tool", "API key 999 version 4 of client 'old-tool' is not served"),
        (52, 0, b"old-tool", "API key 52 version 0 of client 'old-tool' is not served"),
        (METADATA, 99, b"old-tool", "Metadata (API key 3) version 99 of client 'old-tool' is not served"),
        (999, 0, b"\x00\xff", "API key 999 version 0 of a client without a readable id is not served"),
    ],
)
def test_one_line_says_what_was_not_served(
    broker: Broker, raw: RawClient, key: int, version: int, client_id: bytes, said: str
) -> None:
    before = broker.log_file.stat().st_size
    raw.send(frame(header(key, version, client_id=client_id) + bytes(8)))
    assert raw.is_closed()
    if broker.kind == "odradek":
        added = broker.log_file.read_bytes()[before:].decode().splitlines()
        (line,) = [each for each in added if "is not served" in each]
        assert said in line
        assert " ERROR " in line  # as Apache Kafka logs it
        address, port = raw.socket.getsockname()
        assert f"{address}:{port}" in line


def test_a_request_before_the_bad_one_is_still_answered(broker: Broker, raw: RawClient) -> None:
    raw.send(api_versions_frame(1), frame(header(999, 0)))
    assert raw.correlation_id() == 1
    assert raw.is_closed()


def test_half_a_request_then_silence_hurts_nobody(broker: Broker, raw: RawClient) -> None:
    whole = api_versions_frame(5)
    raw.send(whole[:9])
    for number in range(20):
        other = RawClient(broker.port)
        other.send(api_versions_frame(number))
        assert other.correlation_id() == number
        other.close()
    raw.send(whole[9:])
    assert raw.correlation_id() == 5


def test_a_huge_announced_request_that_never_comes_hurts_nobody(broker: Broker) -> None:
    # Apache Kafka sets the announced memory aside at once, so only as much as its small heap here bears.
    silent = [RawClient(broker.port) for _ in range(3)]
    for client in silent:
        client.send(frame(header(METADATA, 1), 50_000_000))
    assert wire.call(broker, wire.ASK_VERSIONS, 3).error_code == 0
    for client in silent:
        client.close()


def test_requests_of_one_connection_are_answered_in_order(broker: Broker, raw: RawClient) -> None:
    raw.send(*(api_versions_frame(number) for number in range(200)))
    assert [raw.correlation_id() for _ in range(200)] == list(range(200))


@pytest.mark.parametrize("version", [5, 100, 32767, -1])
def test_api_versions_of_the_future_is_answered_in_version_0(broker: Broker, raw: RawClient, version: int) -> None:
    # From version 3 on the header ends with tagged fields (none here); what follows is never looked at.
    tags = b"\x00" if version >= 3 else b""
    raw.send(frame(header(API_VERSIONS, version, correlation_id=77) + tags + b"not a body at all"))
    answer = raw.frame()
    correlation_id, error, count, key, low, high = struct.unpack(">ihihhh", answer)
    assert (correlation_id, error) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert (count, key, low, high) == (1, API_VERSIONS, 0, 4)
    raw.send(api_versions_frame(78))
    assert raw.correlation_id() == 78


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("-leading", "1"), ("trailing.", "1"), ("white space", "1"), ("ok", ""), ("ok", "v 1")],
)
def test_client_software_names_are_checked(broker: Broker, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert wire.call(broker, request, 3).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["a b", "a/b", "ü", ".", "..", "x" * 250, ""])
def test_illegal_topic_names_are_not_created(cluster: Cluster, broker: Broker, name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (topic,) = wire.call(broker, request, 8).topics
    assert ErrorCode.of(topic.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (
        ErrorCode.of(wire.produce(broker, name, wire.batch([b"v"])).error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_a_topic_name_longer_than_a_name_can_be_is_refused(broker: Broker, raw: RawClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_767)])
    raw.send(encode_request(RequestHeader(METADATA, 8, 3, "t"), request))
    assert raw.correlation_id() == 3


def damaged(position: int, layout: str, value: int, *, repair: bool) -> bytearray:
    """A batch of three records with one header field overwritten; ``repair`` makes the checksum right again."""
    from crc32c import crc32c

    data = wire.batch([b"one", b"two", b"three"])
    struct.pack_into(layout, data, position, value)
    if repair:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT = 8, 16, 17, 21, 23, 57

REFUSED = {
    "wrong checksum": (damaged(CRC, ">I", 1, repair=False), ErrorCode.CORRUPT_MESSAGE),
    "flipped payload": (damaged(70, ">B", 255, repair=False), ErrorCode.CORRUPT_MESSAGE),
    "count above the last offset": (damaged(COUNT, ">i", 4, repair=True), ErrorCode.INVALID_RECORD),
    "count below the last offset": (damaged(COUNT, ">i", 2, repair=True), ErrorCode.INVALID_RECORD),
    "count of zero": (damaged(COUNT, ">i", 0, repair=True), ErrorCode.INVALID_RECORD),
    "negative count": (damaged(COUNT, ">i", -1, repair=True), ErrorCode.INVALID_RECORD),
    "negative last offset": (damaged(LAST_DELTA, ">i", -3, repair=True), ErrorCode.INVALID_RECORD),
    "base offset that is not zero": (damaged(0, ">q", 5, repair=False), ErrorCode.INVALID_RECORD),
    "control bit": (damaged(ATTRIBUTES, ">h", 0x20, repair=True), ErrorCode.INVALID_RECORD),
    "magic 1 layout in version 9": (damaged(MAGIC, ">b", 1, repair=False), ErrorCode.INVALID_RECORD),
    "two batches": (wire.batch([b"a"]) + wire.batch([b"b"]), ErrorCode.INVALID_RECORD),
    "no batch": (b"", ErrorCode.INVALID_RECORD),
    "length beyond the data": (damaged(LENGTH, ">i", 4000, repair=False), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_batch_is_refused_and_nothing_is_appended(cluster: Cluster, broker: Broker, what: str) -> None:
    data, code = REFUSED[what]
    topic = wire.create_topic(cluster)
    with wire.connected(broker) as connection:
        answer = connection.call(wire.produce_request(topic, data), 9).responses[0].partition_responses[0]
        assert ErrorCode.of(answer.error_code) is code
        assert answer.base_offset == -1
        # The same connection goes on, and the log is as it was.
        again = connection.call(wire.produce_request(topic, wire.batch([b"good"])), 9)
        assert again.responses[0].partition_responses[0].error_code == 0
        assert again.responses[0].partition_responses[0].base_offset == 0
    assert [record.value for record in wire.records_of(wire.fetch(broker, topic, 0))] == [b"good"]


def test_a_codec_number_that_does_not_exist(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster)
    with wire.connected(broker) as connection:
        answer = connection.call(wire.produce_request(topic, damaged(ATTRIBUTES, ">h", 7, repair=True)), 9)
    assert answer.responses[0].partition_responses[0].error_code != 0
    assert wire.list_offset(broker, topic, -1).offset == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_payload_that_does_not_decompress(cluster: Cluster, broker: Broker, codec: int) -> None:
    topic = wire.create_topic(cluster, configs={"compression.type": "uncompressed"})
    answer = wire.produce(broker, topic, damaged(ATTRIBUTES, ">h", codec, repair=True))
    assert answer.error_code != 0
    assert wire.list_offset(broker, topic, -1).offset == 0


def test_acks_0_with_a_bad_batch_closes_the_connection(cluster: Cluster, broker: Broker, raw: RawClient) -> None:
    topic = wire.create_topic(cluster)
    request = wire.produce_request(topic, damaged(CRC, ">I", 1, repair=False), acks=0)
    raw.send(encode_request(RequestHeader(PRODUCE, 9, 1, "t"), request))
    assert raw.is_closed()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist(cluster: Cluster, broker: Broker, acks: int) -> None:
    topic = wire.create_topic(cluster)
    answer = wire.produce(broker, topic, wire.batch([b"v"]), acks=acks)
    assert ErrorCode.of(answer.error_code) is ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.list_offset(broker, topic, -1).offset == 0


def test_a_batch_above_max_message_bytes(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, configs={"max.message.bytes": "1000"})
    assert wire.produce(broker, topic, wire.batch([b"x" * 900])).error_code == 0
    answer = wire.produce(broker, topic, wire.batch([b"x" * 1000]))
    assert ErrorCode.of(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert wire.list_offset(broker, topic, -1).offset == 1


@pytest.mark.parametrize("name", [".", "..", "a\0b", "a//b"])
def test_configs_of_topics_that_no_path_can_hold(broker: Broker, name: str) -> None:
    """Each request has its own error for them, and one more resource is answered for itself."""
    resources = [(2, name), (2, "nowhere")]
    described = wire.call(
        broker,
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=kind, resource_name=each) for kind, each in resources]
        ),
        4,
    ).results
    replaced = wire.call(
        broker,
        AlterConfigsRequest(
            resources=[AlterableResource(resource_type=kind, resource_name=each) for kind, each in resources]
        ),
        2,
    ).responses
    changed = wire.call(
        broker,
        IncrementalAlterConfigsRequest(
            resources=[IncrementalResource(resource_type=kind, resource_name=each) for kind, each in resources]
        ),
        1,
    ).responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[ErrorCode.of(each.error_code) for each in answer] for answer in (described, replaced, changed)] == [
        [ErrorCode.INVALID_TOPIC_EXCEPTION, unknown],
        [unknown, unknown],
        [ErrorCode.INVALID_CONFIG, unknown],
    ]


def test_names_that_no_path_can_hold(broker: Broker) -> None:
    """Who asks about one fails alone; who changes one, or grows an empty topic, fails with the whole request."""
    users = [UserName(name=".."), UserName(name="nobody")]
    answer = wire.call(broker, DescribeUserScramCredentialsRequest(users=users), 0)
    codes = [ErrorCode.of(each.error_code) for each in answer.results]
    assert (answer.error_code, codes) == (0, [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.RESOURCE_NOT_FOUND])
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in ("..", "nobody")]
    altered = wire.call(broker, AlterUserScramCredentialsRequest(deletions=deletions), 0).results
    assert [ErrorCode.of(each.error_code) for each in altered] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    for bad in ("", ".", "a//b", "a\0"):
        topics = [CreatePartitionsTopic(name=name, count=2) for name in (bad, "nowhere")]
        made = wire.call(broker, CreatePartitionsRequest(topics=topics, timeout_ms=3_000), 3).results
        assert [ErrorCode.of(each.error_code) for each in made] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2, bad


@pytest.mark.parametrize("group", ["g\x1d", "g\U0001f600"])
def test_a_group_whose_name_no_path_can_hold(broker: Broker, cluster: Cluster, group: str) -> None:
    """In version 0, whose offsets live in ZooKeeper."""
    topic = wire.create_topic(cluster)
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    committed = wire.call(broker, OffsetCommitRequest(group_id=group, topics=topics), 0)
    asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    fetched = wire.call(broker, OffsetFetchRequest(group_id=group, topics=asked), 0)
    codes = [ErrorCode.of(each.topics[0].partitions[0].error_code) for each in (committed, fetched)]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize("version", [0, 2, 3, wire.FETCH_VERSION])
@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_fetch_of_less_than_nothing(broker: Broker, cluster: Cluster, version: int, size: int) -> None:
    topic = wire.create_topic(cluster)
    wire.produce(broker, topic, wire.batch([b"x"]))
    for offset, expected in ((0, ErrorCode.UNKNOWN_SERVER_ERROR), (1, ErrorCode.NONE)):
        request = wire.fetch_request(topic, offset)
        request.topics[0].partitions[0].partition_max_bytes = size
        (answer,) = wire.call(broker, request, version).responses[0].partitions
        assert ErrorCode.of(answer.error_code) is expected
