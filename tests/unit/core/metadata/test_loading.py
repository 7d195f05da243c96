"""An image that is loaded is the one that replaying the decoded records gives, and fails where that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.metadata import loading
from barnabas.core.metadata.loading import ImageLoading
from barnabas.core.metadata.records import MetadataError, UnsupportedMetadata, decode_record, encode_record
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import encode_metadata_record
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

TOPICS = [Uuid(bytes([number]) * 16) for number in range(1, 4)]
ids = st.sampled_from(TOPICS)
partitions = st.integers(0, 2)
nodes = st.lists(st.integers(1, 3), min_size=1, max_size=2, unique=True)
maybe_nodes = st.none() | nodes
directories = st.lists(ids, min_size=1, max_size=2)


def builds(record_type: type[Record], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries(fields).map(lambda given_fields: record_type(**given_fields))


partition = builds(
    wire.PartitionRecord,
    partition_id=partitions,
    topic_id=ids,
    replicas=nodes,
    isr=nodes,
    leader=st.integers(-1, 2),
    leader_epoch=st.integers(0, 2),
    partition_epoch=st.integers(0, 2),
    leader_recovery_state=st.integers(0, 1),
    directories=st.just([]) | directories,
    adding_replicas=nodes,
    removing_replicas=nodes,
    eligible_leader_replicas=maybe_nodes,
    last_known_elr=maybe_nodes,
)
change = builds(
    wire.PartitionChangeRecord,
    partition_id=partitions,
    topic_id=ids,
    isr=maybe_nodes,
    leader=st.integers(-2, 2),
    replicas=maybe_nodes,
    directories=st.none() | directories,
    adding_replicas=maybe_nodes,
    removing_replicas=maybe_nodes,
    leader_recovery_state=st.integers(-1, 1),
    eligible_leader_replicas=maybe_nodes,
    last_known_elr=maybe_nodes,
)
leads = builds(wire.PartitionChangeRecord, partition_id=partitions, topic_id=ids, leader=st.integers(-1, 2))
rare: st.SearchStrategy[Record] = st.one_of(
    builds(wire.TopicRecord, name=st.sampled_from("abc"), topic_id=ids),
    builds(wire.RemoveTopicRecord, topic_id=ids),
    st.sampled_from(
        [
            wire.ClearElrRecord(topic_name=""),
            wire.NoOpRecord(),
            wire.ConfigRecord(resource_type=2, resource_name="a", name="n", value="v"),
            wire.BeginTransactionRecord(),
            wire.EndTransactionRecord(),
            wire.AbortTransactionRecord(),
        ]
    ),
)
BEGIN: list[Record] = [wire.TopicRecord(name=name, topic_id=each) for name, each in zip("abc", TOPICS, strict=True)]
BEGIN += [wire.PartitionRecord(partition_id=0, topic_id=each, replicas=[1], isr=[1], leader=1) for each in TOPICS]


def replayed(values: Sequence[bytes]) -> MetadataImage | str:
    image = MetadataImage()
    try:
        for value in values:
            image.replay(decode_record(value))
    except MetadataError as error:
        return repr(error)
    return image


def loaded(values: Sequence[bytes]) -> MetadataImage | str:
    image = MetadataImage()
    loading = ImageLoading(image)
    try:
        loading.replay(values[:3])
        loading.replay(values[3:])
    except MetadataError as error:
        return repr(error)
    return image


@settings(max_examples=400, deadline=None)
@given(records=st.lists(st.one_of(partition, change, leads, leads, rare), max_size=30))
def test_a_loaded_image_is_what_replaying_gives(records: list[Record]) -> None:
    values = [encode_record(record, 30) for record in [*BEGIN, *records]]
    for end in range(3, len(values) + 1):  # until the first that fails
        expected = replayed(values[:end])
        assert loaded(values[:end]) == expected
        if isinstance(expected, str):
            break


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_records_is_loaded(version: int) -> None:
    records: list[tuple[Record, int]] = [(record, 0) for record in BEGIN[:3]]
    for index in range(2):
        for topic in TOPICS:
            placed = wire.PartitionRecord(partition_id=index, topic_id=topic, replicas=[1, 2], isr=[1], leader=1)
            moved = wire.PartitionChangeRecord(partition_id=index, topic_id=topic, leader=2, isr=[1, 2])
            if version > 0:
                placed.directories = [TOPICS[0], TOPICS[1]]
            if version > 1:
                moved.eligible_leader_replicas = [3]
            records += [(placed, version), (moved, version)]
    values = [encode_metadata_record(record, in_version) for record, in_version in records]
    image = loaded(values)
    assert isinstance(image, MetadataImage)
    assert image == replayed(values)
    assert image.topics["b"].partitions[1].isr == [1, 2]


@pytest.mark.parametrize("record_type", [wire.PartitionRecord, wire.PartitionChangeRecord])
def test_what_cannot_be_decoded_is_an_error_also_after_others_that_can(record_type: type[Record]) -> None:
    good = encode_record(record_type(topic_id=TOPICS[0], partition_id=0), 30)
    begin = [encode_record(record, 30) for record in BEGIN]
    for wrong in (
        good + b"\0",
        good[:-1],
        good[:10],
        good[:23],
        good[:2],
        b"",
        b"\1\x63\0",
        good[:2] + b"\3" + good[3:],
    ):
        image = MetadataImage()
        loading = ImageLoading(image)
        loading.replay([*begin, good])
        with pytest.raises(UnsupportedMetadata):
            loading.replay([wrong])


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "REMEMBERED_MAX", 3)
    changes = [wire.PartitionChangeRecord(topic_id=TOPICS[0], partition_id=0, leader=leader) for leader in range(20)]
    values = [encode_record(record, 30) for record in [*BEGIN, *changes, *changes]]
    assert loaded(values) == replayed(values)
