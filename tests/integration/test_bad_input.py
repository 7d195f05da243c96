"""The table "Bad input, and what it gets", line by line over a raw socket."""

from __future__ import annotations

import itertools
import struct
import time
from typing import Any

import crc32c
import pytest

from barnabas.client.exchange import request_frame
from barnabas.node.handlers import HANDLERS
from barnabas.testing import Node
from barnabas.wire.apis import APIS, message_classes
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.compression import Compression, compress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schema import Request
from tests.support.connections import connect_to
from tests.support.reference_batches import crafted_batch, encoded_records
from tests.support.waiting import wait_until

MAX_FRAME_BYTES = 100 << 20
HUGE_COUNTS = (b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x07", b"\x7f\xff\xff\xff")

topic_names = (f"bad-input-{number}" for number in itertools.count())


def offered_versions() -> list[tuple[int, int]]:
    found = []
    for api_key in sorted(HANDLERS):
        offered = APIS[api_key].broker
        if offered:
            lowest = max(offered[0], message_classes(api_key)[0].valid_versions[0])
            found += [(api_key, version) for version in range(lowest, offered[1] + 1)]
    return found


# Frames and headers


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_an_impossible_length_closes_the_connection(node: Node, raw: Any, size: int) -> None:
    with raw.Client(node.port) as client:
        client.send(struct.pack(">i", size))
        assert client.is_closed_by_node()
    assert raw.answers(node)


def test_declared_lengths_and_then_silence_cost_next_to_nothing(node: Node, raw: Any) -> None:
    assert raw.answers(node)
    before = raw.rss_bytes(node.pid)
    clients = [raw.Client(node.port) for _ in range(100)]
    for client in clients:
        client.send(struct.pack(">i", MAX_FRAME_BYTES), b"\x00" * 1000)
    assert raw.answers(node)
    grown = raw.rss_bytes(node.pid) - before
    for client in clients:
        client.close()
    assert grown < 16 << 20


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x12\x00\x00\x00\x00\x00\x01", b"\xff" * 64])
def test_what_is_no_header_closes_the_connection(node: Node, raw: Any, payload: bytes) -> None:
    with raw.Client(node.port) as client:
        client.send(raw.frame(payload))
        assert client.is_closed_by_node()
    assert raw.answers(node)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(999, 0), (-1, 0), (4, 0), (5, 1), (6, 1), (7, 1), (52, 0), (62, 0), (3, 14), (3, -1), (0, 2)],
)
def test_unknown_apis_and_versions_close_the_connection(node: Node, raw: Any, api_key: int, version: int) -> None:
    with raw.Client(node.port) as client:
        client.send(raw.frame(raw.header(18, 0, 41)), raw.frame(raw.header(api_key, version)))
        assert ApiVersionsResponse.decode(client.receive_frame()[4:], 0).error_code == 0
        assert client.is_closed_by_node()
    assert raw.answers(node)


@pytest.mark.parametrize("version", [5, 100, 32767])
def test_an_unknown_version_of_api_versions_is_answered_as_version_0(node: Node, raw: Any, version: int) -> None:
    with raw.Client(node.port) as client:
        client.send(raw.frame(raw.header(18, version, 9) + b"\x00whatever the future brings"))
        answer = client.receive_frame()
        response = ApiVersionsResponse.decode(answer[4:], 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_client_whose_request_is_unreadable_is_logged_once(raw: Any) -> None:
    with Node() as node:
        for _ in range(10):
            with raw.Client(node.port) as client:
                client.send(raw.frame(raw.header(999, 0)))
                assert client.is_closed_by_node()
        raw.wait_until(lambda: "API key 999" in node.log())
        assert node.log().count("API key 999") == 1
        assert "Traceback" not in node.log()


# Counts and tags


@pytest.mark.parametrize("count", HUGE_COUNTS)
@pytest.mark.parametrize(("api_key", "version"), offered_versions())
def test_a_count_above_the_bytes_left_closes_the_connection(
    node: Node, raw: Any, api_key: int, version: int, count: bytes
) -> None:
    """The count stands at the beginning and behind so many zero bytes that it meets the later fields too."""
    flexible = message_classes(api_key)[0].is_flexible(version)
    for zeroes in range(0, 24, 2):
        payload = raw.header(api_key, version) + (b"\x00" if flexible else b"") + bytes(zeroes) + count
        with raw.Client(node.port) as client:
            client.send(raw.frame(payload), raw.frame(raw.header(999, 0)))
            assert client.is_closed_by_node()
    assert node.running


@pytest.mark.parametrize("tags", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x0f", b"\x05", b"\x01\x00\x7f"])
def test_hostile_tag_counts_and_sizes_close_the_connection(node: Node, raw: Any, tags: bytes) -> None:
    body = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)
    for payload in (
        raw.header(18, 3) + tags,
        raw.header(18, 3) + b"\x00" + body[:-1] + tags,
        raw.header(3, 12) + b"\x00" + MetadataRequest(topics=[]).encode(12)[:-1] + tags,
    ):
        with raw.Client(node.port) as client:
            client.send(raw.frame(payload))
            assert client.is_closed_by_node()
    assert raw.answers(node)


def test_millions_of_tags_do_not_hold_up_the_others(node: Node, raw: Any) -> None:
    tags = b"\xff\xff\xff\x03" + b"\x00\x00" * 8_000_000
    with raw.Client(node.port) as client:
        client.send(raw.frame(raw.header(18, 3) + tags))
        assert client.is_closed_by_node()
    assert raw.answers(node)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=[]), 13),
        (MetadataRequest(topics=[]), 9),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4),
        (ListOffsetsRequest(topics=[]), 11),
    ],
)
def test_unknown_tags_are_skipped_in_header_and_body(node: Node, raw: Any, request_: Request, version: int) -> None:
    unknown = b"\x02\x64\x03abc\xff\x01\x00"
    payload = raw.header(request_.api_key, version, 5) + unknown + bytes(request_.encode(version)[:-1]) + unknown
    with raw.Client(node.port) as client:
        client.send(raw.frame(payload))
        tagged = client.receive_answer(type(request_), version, 5)
        plain = client.ask(request_, version, 6)
    assert tagged == plain


def test_bytes_that_end_too_early_close_the_connection(node: Node, raw: Any) -> None:
    whole = bytes(request_frame(MetadataRequest(topics=[]), 12, 1, "raw"))[4:]
    for size in range(10, len(whole)):
        with raw.Client(node.port) as client:
            client.send(raw.frame(whole[:size]))
            assert client.is_closed_by_node()
    assert raw.answers(node)


# Batches


def produce(client: Any, topic: str, records: bytes, *, version: int = 9, acks: int = -1) -> Any:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    answer = client.ask(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), version)
    return answer.responses[0].partition_responses[0]


BAD_BATCHES: dict[str, tuple[bytes, ErrorCode]] = {
    "a wrong checksum": (crafted_batch(crc=1), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit in a record": (
        crafted_batch([(b"k", b"value")])[:-3] + b"\xff" + crafted_batch([(b"k", b"value")])[-2:],
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "a count that is too small": (crafted_batch([(b"a", b"1"), (b"b", b"2")], count=1), ErrorCode.INVALID_RECORD),
    "a count that is too large": (crafted_batch(count=5), ErrorCode.INVALID_RECORD),
    "an offset range that is too large": (crafted_batch(last_offset_delta=7), ErrorCode.INVALID_RECORD),
    "a control batch": (crafted_batch(attributes=0x20), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("what", BAD_BATCHES)
def test_a_bad_batch_gets_its_error_and_leaves_nothing_behind(node: Node, raw: Any, what: str) -> None:
    batch, code = BAD_BATCHES[what]
    topic = next(topic_names)
    raw.create_topic(node, topic)
    with raw.Client(node.port) as client:
        assert produce(client, topic, batch).error_code == code
        good = produce(client, topic, crafted_batch())
        assert (good.error_code, good.base_offset) == (0, 0)


def test_a_batch_over_the_limit_is_too_large_and_a_smaller_one_is_not(node: Node, raw: Any) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic, max_message_bytes="1000")
    with raw.Client(node.port) as client:
        large = crafted_batch([(b"k", bytes(1000))])
        assert produce(client, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce(client, topic, crafted_batch([(b"k", bytes(800))])).error_code == 0


def test_a_null_key_is_refused_where_the_topic_is_compacted(node: Node, raw: Any) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic, cleanup_policy="compact")
    with raw.Client(node.port) as client:
        mixed = crafted_batch([(b"k", b"v"), (None, b"v")])
        assert produce(client, topic, mixed).error_code == ErrorCode.INVALID_RECORD
        assert produce(client, topic, crafted_batch()).base_offset == 0


def test_what_unfolds_to_more_than_memory_is_refused(node: Node, raw: Any) -> None:
    """Two gigabytes of zeroes in a few hundred kilobytes, where records have to be opened."""
    topic = next(topic_names)
    raw.create_topic(node, topic, cleanup_policy="compact", max_message_bytes="10000000")
    block = compress(bytes(64 << 20), Compression.GZIP)
    batch = crafted_batch([(b"k", b"v")], attributes=int(Compression.GZIP), body=block * 32)
    before = raw.rss_bytes(node.pid)
    with raw.Client(node.port) as client:
        assert produce(client, topic, batch).error_code != 0
        assert raw.rss_bytes(node.pid) - before < 600 << 20
        assert produce(client, topic, crafted_batch()).base_offset == 0


@pytest.mark.parametrize("version", [3, 6, 7, 9])
def test_zstd_needs_produce_7(node: Node, raw: Any, version: int) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic)
    body = compress(encoded_records([(b"k", b"v")]), Compression.ZSTD)
    batch = crafted_batch([(b"k", b"v")], attributes=int(Compression.ZSTD), body=body)
    with raw.Client(node.port) as client:
        code = produce(client, topic, batch, version=version).error_code
    assert code == (0 if version >= 7 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_sequences_begin_anywhere_and_then_have_no_gaps(node: Node, raw: Any) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic)

    def batch(sequence: int) -> bytes:
        return crafted_batch(
            [(b"k", str(sequence).encode())], producer_id=4711, producer_epoch=0, base_sequence=sequence
        )

    with raw.Client(node.port) as client:
        assert [produce(client, topic, batch(sequence)).base_offset for sequence in (10, 11, 12)] == [0, 1, 2]
        assert produce(client, topic, batch(14)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        again = produce(client, topic, batch(11))
        assert (again.error_code, again.base_offset) == (0, 1)
        assert produce(client, topic, batch(13)).base_offset == 3


def test_records_are_found_as_they_were_sent_after_all_of_this(node: Node, raw: Any) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic)
    batch = crafted_batch([(b"k", b"v"), (b"l", None)])
    with raw.Client(node.port) as client:
        produce(client, topic, b"")
        produce(client, topic, batch[:-1])
        produce(client, topic, batch + b"\x00")
        base = produce(client, topic, batch).base_offset
        partition = FetchPartition(partition=0, fetch_offset=base, partition_max_bytes=1 << 20)
        request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[partition])])
        answer = client.ask(request, 12)
    records = bytes(answer.responses[0].partitions[0].records)
    assert records[21:] == batch[21:]
    assert crc32c.crc32c(records[21:]) == struct.unpack_from(">I", records, 17)[0]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_other_than_0_1_and_all_are_invalid(node: Node, raw: Any, acks: int) -> None:
    topic = next(topic_names)
    raw.create_topic(node, topic)
    with raw.Client(node.port) as client:
        answer = produce(client, topic, crafted_batch(), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


INTERNAL = {
    "__consumer_offsets": (b"\0\1\0\1g\0\1t\0\0\0\1", b"\0\3" + bytes(22)),
    "__transaction_state": (b"\0\0\0\1x", None),
}


@pytest.mark.parametrize("topic", INTERNAL)
def test_who_may_write_to_an_internal_topic_may_write_only_what_can_be_read(node: Node, topic: str) -> None:
    asked = [FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]) for kind in (0, 1)]
    with connect_to(node.port, "__admin_client") as client:

        def produce(key: bytes | None, value: bytes | None) -> int:
            batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, key, value)]))
            data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
            answer = client.request(ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=data), 9)
            code: int = answer.responses[0].partition_responses[0].error_code
            return code

        for each in asked:
            wait_until(lambda each=each: not client.request(each, 4).coordinators[0].error_code)  # type: ignore[misc]
        good_key, good_value = INTERNAL[topic]
        for key, value in (
            (b"\0", b"v"),
            (good_key + b"!", good_value),
            (good_key[:-1], good_value),
            (good_key, b"\0"),
        ):
            assert produce(key, value) == ErrorCode.INVALID_RECORD
        assert produce(good_key, good_value) == 0
        assert produce(b"\0\x55of a later version", b"v") == 0
