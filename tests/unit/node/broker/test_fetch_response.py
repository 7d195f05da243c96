"""The answer packed by hand says what the declared message says."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.node.broker.fetch_response import Found, pack_answer
from barnabas.node.broker.fetch_sessions import PartitionFetch, TopicKey
from barnabas.node.broker.partition import PartitionRead
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.wire.uuids import Uuid

INT64 = st.integers(-1, 2**63 - 1)
INT32 = st.integers(-1, 2**31 - 1)
EPOCH = st.integers(0, 2**31 - 1)
NAMES = ("orders", "naïve-ish" * 20)
IDS = (Uuid(b"a" * 16), Uuid(b"b" * 16))


@st.composite
def found(draw: st.DrawFn) -> Found:
    read = PartitionRead(
        draw(st.integers(-1, 130)),
        *draw(st.tuples(INT64, INT64, INT64)),
        draw(st.binary(max_size=5)) * draw(st.sampled_from([1, 1, 40, 5000])),
        draw(st.none() | st.lists(st.tuples(INT64, INT64), max_size=3)),
        draw(st.none() | st.tuples(EPOCH, INT64)),
        draw(st.none() | st.tuples(EPOCH, INT32)),
    )
    return PartitionFetch("", FetchPartition(partition=draw(INT32))), read


def declared(fetch: PartitionFetch, read: PartitionRead, version: int) -> PartitionData:
    data = PartitionData(
        partition_index=fetch.index,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        records=bytes(read.records),  # type: ignore[arg-type]
        aborted_transactions=None
        if read.aborted_transactions is None
        else [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in read.aborted_transactions],
    )
    if read.diverging_epoch and version >= 12:
        data.diverging_epoch = EpochEndOffset(epoch=read.diverging_epoch[0], end_offset=read.diverging_epoch[1])
    if read.current_leader and version >= 12:
        data.current_leader = LeaderIdAndEpoch(leader_id=read.current_leader[0], leader_epoch=read.current_leader[1])
    return data


def as_declared(version: int, session_id: int, error: int, fetches: list[Found]) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    last: TopicKey | None = None
    for fetch, read in fetches:
        if fetch.topic_key != last:
            last = fetch.topic_key
            topic = (
                FetchableTopicResponse(topic=last) if isinstance(last, str) else FetchableTopicResponse(topic_id=last)
            )
            topics.append(topic)
        topics[-1].partitions.append(declared(fetch, read, version))
    return FetchResponse(error_code=error, session_id=session_id if version >= 7 else 0, responses=topics)


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=25, deadline=None)
@given(
    fetches=st.lists(st.tuples(st.integers(0, 1), found()), max_size=6), session_id=INT32, error=st.integers(-1, 120)
)
def test_every_version_is_packed_as_declared(
    version: int, fetches: list[tuple[int, Found]], session_id: int, error: int
) -> None:
    keys: tuple[TopicKey, ...] = NAMES if version < 13 else IDS
    found_fetches = []
    for topic, (fetch, read) in fetches:
        fetch.topic_key = keys[topic]
        untagged = read._replace(diverging_epoch=None, current_leader=None)
        found_fetches.append((fetch, untagged if version < 12 else read))
    packed = b"".join(asyncio.run(pack_answer(version, session_id, found_fetches, error)).parts)  # type: ignore[arg-type]
    assert packed == as_declared(version, session_id, error, found_fetches).encode(version)


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_endpoints_of_leaders_are_named_from_version_16_on(version: int) -> None:
    endpoints = [NodeEndpoint(node_id=3, host="host", port=9092, rack="r"), NodeEndpoint(node_id=4, host="h")]
    packed = b"".join(asyncio.run(pack_answer(version, 0, [], endpoints=endpoints)).parts)  # type: ignore[arg-type]
    assert packed == FetchResponse(node_endpoints=endpoints if version >= 16 else []).encode(version)


def test_records_are_handed_on_without_a_copy() -> None:
    fetch, records = PartitionFetch("orders", FetchPartition()), memoryview(b"records" * 100)
    answer = asyncio.run(pack_answer(12, 0, [(fetch, PartitionRead(records=records))]))
    assert any(part is records for part in answer.parts)
