"""The answer packed by hand says what the declared message says."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.node.broker.produce_response import AppendedResponse, PartitionResult, declare
from barnabas.wire.uuids import Uuid

INT64 = st.integers(-1, 2**63 - 1)
RESULT = st.builds(
    lambda index, base, time_ms, start: PartitionResult(index, 0, base, time_ms, start),
    st.integers(0, 2**31 - 1),
    INT64,
    INT64,
    INT64,
)


@pytest.mark.parametrize("version", range(3, 14))
@settings(max_examples=20, deadline=None)
@given(
    topics=st.lists(st.tuples(st.sampled_from(["orders", "n" * 200, "ü"]), st.lists(RESULT, max_size=3)), max_size=3)
)
def test_every_version_is_packed_as_declared(version: int, topics: list[tuple[str, list[PartitionResult]]]) -> None:
    named: list[tuple[str | Uuid, list[PartitionResult]]] = [
        (Uuid(name.encode().ljust(16, b"\0")[:16]) if version >= 13 else name, results) for name, results in topics
    ]
    packed = bytearray()
    AppendedResponse(named).encode_into(packed, version)
    assert packed == asyncio.run(declare(named)).encode(version)


def test_errors_are_declared_with_all_their_details() -> None:
    result = PartitionResult(
        3, 87, log_start_offset=5, record_errors=[(1, "no key")], error_message="bad", current_leader=(2, 7)
    )
    (topic,) = asyncio.run(declare([("orders", [result])])).responses
    (partition,) = topic.partition_responses
    assert (partition.index, partition.error_code, partition.base_offset, partition.log_start_offset) == (3, 87, -1, 5)
    assert [(each.batch_index, each.batch_index_error_message) for each in partition.record_errors] == [(1, "no key")]
    assert partition.error_message == "bad"
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 7)
