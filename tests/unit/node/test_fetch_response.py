"""The answer packed by hand says what the declared message says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.node.fetch_response import pack_answer
from barnabas.node.fetch_sessions import PartitionFetch, TopicKey
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
def found(draw: st.DrawFn) -> PartitionFetch:
    fetch = PartitionFetch("", FetchPartition(partition=draw(INT32)))
    fetch.fail(draw(st.integers(-1, 130)), draw(st.none() | st.lists(st.tuples(INT64, INT64), max_size=3)))
    fetch.high_watermark, fetch.last_stable_offset, fetch.log_start_offset = draw(st.tuples(INT64, INT64, INT64))
    fetch.records = draw(st.binary(max_size=5)) * draw(st.sampled_from([1, 1, 40, 5000]))
    fetch.diverging_epoch = draw(st.none() | st.tuples(EPOCH, INT64))
    fetch.current_leader = draw(st.none() | st.tuples(EPOCH, INT32))
    return fetch


def declared(fetch: PartitionFetch, version: int) -> PartitionData:
    data = PartitionData(
        partition_index=fetch.index,
        error_code=fetch.error_code,
        high_watermark=fetch.high_watermark,
        last_stable_offset=fetch.last_stable_offset,
        log_start_offset=fetch.log_start_offset,
        records=bytes(fetch.records),  # type: ignore[arg-type]
        aborted_transactions=None
        if fetch.aborted_transactions is None
        else [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in fetch.aborted_transactions],
    )
    if fetch.diverging_epoch and version >= 12:
        data.diverging_epoch = EpochEndOffset(epoch=fetch.diverging_epoch[0], end_offset=fetch.diverging_epoch[1])
    if fetch.current_leader and version >= 12:
        data.current_leader = LeaderIdAndEpoch(leader_id=fetch.current_leader[0], leader_epoch=fetch.current_leader[1])
    return data


def as_declared(version: int, session_id: int, error: int, fetches: list[PartitionFetch]) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    last: TopicKey | None = None
    for fetch in fetches:
        if fetch.topic_key != last:
            last = fetch.topic_key
            topic = (
                FetchableTopicResponse(topic=last) if isinstance(last, str) else FetchableTopicResponse(topic_id=last)
            )
            topics.append(topic)
        topics[-1].partitions.append(declared(fetch, version))
    return FetchResponse(error_code=error, session_id=session_id if version >= 7 else 0, responses=topics)


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=25, deadline=None)
@given(
    fetches=st.lists(st.tuples(st.integers(0, 1), found()), max_size=6), session_id=INT32, error=st.integers(-1, 120)
)
def test_every_version_is_packed_as_declared(
    version: int, fetches: list[tuple[int, PartitionFetch]], session_id: int, error: int
) -> None:
    keys: tuple[TopicKey, ...] = NAMES if version < 13 else IDS
    for topic, fetch in fetches:
        fetch.topic_key = keys[topic]
        if version < 12:
            fetch.diverging_epoch = fetch.current_leader = None
    found_fetches = [fetch for _, fetch in fetches]
    packed = b"".join(pack_answer(version, session_id, found_fetches, error).parts)  # type: ignore[arg-type]
    assert packed == as_declared(version, session_id, error, found_fetches).encode(version)


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_endpoints_of_leaders_are_named_from_version_16_on(version: int) -> None:
    endpoints = [NodeEndpoint(node_id=3, host="host", port=9092, rack="r"), NodeEndpoint(node_id=4, host="h")]
    packed = b"".join(pack_answer(version, 0, [], endpoints=endpoints).parts)  # type: ignore[arg-type]
    assert packed == FetchResponse(node_endpoints=endpoints if version >= 16 else []).encode(version)


def test_records_are_handed_on_without_a_copy() -> None:
    fetch = PartitionFetch("orders", FetchPartition())
    fetch.records = memoryview(b"records" * 100)
    assert any(part is fetch.records for part in pack_answer(12, 0, [fetch]).parts)
