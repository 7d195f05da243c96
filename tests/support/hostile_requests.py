"""Requests by which one client once stopped all others, and what they need to find on the server.

Each is the frames of one connection, sent one after the other. They are made by hand where an encoder of ours would
take longer than the server takes.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable, Sequence

import cramjam

from barnabas.client.connection import Connection
from barnabas.client.exchange import request_frame
from barnabas.wire.apis import request_header_version
from barnabas.wire.compression import XERIAL_HEADER, Compression
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.schema import Request
from tests.support.reference_batches import crafted_batch

TOPIC = "victim"
PARTITIONS = 10
BROKER = 4
HOUR_MS = 3_600_000
MIB = 1 << 20
GROUP_METADATA_BYTES = 900_000
NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Frames = Sequence[bytes]


def prepare(connection: Connection) -> None:
    """Makes the topic that the requests are about, unless it is there."""
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    (result,) = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    while any(each.error_code for topic in connection.request(asked, 9).topics for each in [topic, *topic.partitions]):
        time.sleep(0.05)
    _join(connection)


def _join(connection: Connection) -> None:
    """A group whose member has said a lot."""
    connection.request(FindCoordinatorRequest(key="talkative"), 2)
    join = JoinGroupRequest(
        group_id="talkative",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(GROUP_METADATA_BYTES))],
    )
    joined = connection.request(join, 3)
    while joined.error_code in NOT_YET:
        time.sleep(0.05)
        joined = connection.request(join, 3)
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
    sync = SyncGroupRequest(
        group_id="talkative",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )
    connection.request(sync, 2)


def hostile_requests(node_id: int, new_partitions: int = 1_000) -> dict[str, Callable[[], Frames]]:
    """By what they do; each is made when it is called. Making a partition takes the disk's time, too."""
    return {
        "a million integers (DescribeProducers)": lambda: integers(1_000_000),
        "eight million integers (DescribeProducers)": lambda: integers(8_000_000),
        "100,000 protocols of a member (JoinGroup)": lambda: protocols(100_000),
        "90,000 unknown partitions (Fetch)": lambda: fetches(90_000),
        "80,000 unknown partitions (DeleteRecords)": lambda: deletions(80_000),
        "90,000 partitions, latest offset (ListOffsets)": lambda: lookups(90_000),
        "the broker's configs 3,000 times (DescribeConfigs)": lambda: configs(node_id, 3_000),
        "a group with 900 KB of metadata 100 times (DescribeGroups)": lambda: groups(100),
        "a group with 900 KB of metadata 20,000 times (DescribeGroups)": lambda: groups(20_000),
        "ten batches of gzip with 40,000 members (Produce)": lambda: produce(gzip_members(), Compression.GZIP),
        "ten batches of snappy with 150,000 blocks (Produce)": lambda: produce(snappy_blocks(), Compression.SNAPPY),
        "ten batches of zstd that are 100 MB each (Produce)": lambda: produce(zstd_bomb(), Compression.ZSTD),
        f"{new_partitions:,} partitions made (CreateTopics)": lambda: creation(new_partitions),
        f"{new_partitions:,} partitions removed (DeleteTopics)": removal,
    }


def framed(request: Request, version: int) -> bytes:
    return bytes(request_frame(request, version, 1, "hostile"))


def integers(count: int) -> Frames:
    """The frame is made around an array that the encoder has not seen."""
    plain = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC)]).encode(0)
    header = RequestHeader(request_api_key=61, request_api_version=0, correlation_id=1, client_id="hostile")
    size = count + 1
    varint = bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    array = bytes(varint) + struct.pack(">i", 1) * count
    # Behind the name: the array's length, and twice no tagged fields.
    body = header.encode(request_header_version(DescribeProducersRequest, 0)) + plain[:-3] + array + plain[-2:]
    return [struct.pack(">i", len(body)) + body]


def protocols(count: int) -> Frames:
    request = JoinGroupRequest(
        group_id="hostile",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=f"p{number}") for number in range(count)],
    )
    return [framed(request, 5)]


def fetches(count: int) -> Frames:
    partitions = [FetchPartition(partition=number, partition_max_bytes=MIB) for number in range(100, 100 + count)]
    topics = [FetchTopic(topic="unknown", partitions=partitions)]
    return [framed(FetchRequest(max_bytes=MIB, session_epoch=0, topics=topics), 11)]


def deletions(count: int) -> Frames:
    partitions = [DeleteRecordsPartition(partition_index=number) for number in range(100, 100 + count)]
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=partitions)]
    return [framed(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)]


def lookups(count: int) -> Frames:
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(count)]
    return [framed(ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=partitions)]), 6)]


def configs(node_id: int, times: int) -> Frames:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=str(node_id), configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource] * times, include_synonyms=True)
    return [framed(request, 2)]


def groups(times: int) -> Frames:
    """Its member has said a lot, see `prepare`."""
    return [framed(DescribeGroupsRequest(groups=["talkative"] * times), 2)]


def produce(body: bytes, codec: Compression) -> Frames:
    """A header whose time is ahead makes the server open the batches, if it would not open all of them anyway."""
    batch = crafted_batch(
        [(b"k", b"v")],
        attributes=int(codec),
        body=body,
        base_timestamp=int(time.time() * 1000) + 2 * HOUR_MS,
    )
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    return [framed(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 8)]


def gzip_members() -> bytes:
    return gzip.compress(b"") * 40_000


def snappy_blocks() -> bytes:
    empty = bytes(cramjam.snappy.compress_raw(b""))
    return XERIAL_HEADER + (struct.pack(">i", len(empty)) + empty) * 150_000


def zstd_bomb() -> bytes:
    return bytes(cramjam.zstd.compress(bytes(100_000_000)))


def creation(count: int) -> Frames:
    topic = CreatableTopic(name="many", num_partitions=count, replication_factor=1)
    return [framed(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), 5)]


def removal() -> Frames:
    return [framed(DeleteTopicsRequest(topics=[DeleteTopicState(name="many")], timeout_ms=120_000), 6)]
