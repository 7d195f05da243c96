"""The answer that is packed by hand, beside the one of the codec."""

from __future__ import annotations

import pytest

from barnabas.node.handlers.k08_offset_commit import Committed
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.uuids import Uuid

NAMES = ["t", "a rather long name " * 9, "käse"]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("partitions", [0, 1, 200])
def test_the_packed_answer_has_the_bytes_of_the_codec(version: int, partitions: int) -> None:
    ids = [Uuid.random() for _ in NAMES]
    asked = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_id,
            partitions=[OffsetCommitRequestPartition(partition_index=index) for index in range(partitions)],
        )
        for name, topic_id in zip(NAMES, ids, strict=True)
    ]
    codes = [[index % 40 - 1 for index in range(partitions)] for _ in NAMES]
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in enumerate(listed)
                ],
            )
            for topic, listed in zip(asked, codes, strict=True)
        ]
    )
    packed = bytearray()
    Committed(asked, codes).encode_into(packed, version)
    assert packed == answer.encode(version)
    nothing = bytearray()
    Committed([], []).encode_into(nothing, version)
    assert nothing == OffsetCommitResponse().encode(version)
