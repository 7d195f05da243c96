"""What cannot be said is an EncodeError, and leaves nothing half said behind."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse, ProduceResponse
from barnabas.wire.messages.produce import TopicProduceResponse as ProducedTopic
from barnabas.wire.primitives import CodecError, EncodeError
from barnabas.wire.records.consumer_groups import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from barnabas.wire.schema import (
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Struct,
    UInt16,
    UInt32,
    field,
    since,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid


class Stamp(Struct):
    country: str = ""


class Parcel(Message, versions="0-2", flexible="1+"):
    flag: bool = False
    int8: Int8 = 0
    int16: Int16 = 0
    uint16: UInt16 = 0
    int32: Int32 = 0
    uint32: UInt32 = 0
    int64: Int64 = 0
    float64: Float64 = 0.0
    text: str = ""
    nullable_since_1: str | None = field(default="", nullable="1+")
    data: bytes = b""
    records: Records | None = None
    id: Uuid = ZERO_UUID
    numbers: list[Int32] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    stamp: Stamp = field(default_factory=Stamp)
    stamps: list[Stamp] | None = None
    weight: Int32 = since(1, default=-1)
    colour: str = since(1, default="brown", ignorable=True)
    labels: list[str] = since(1, default_factory=list)
    seal: Stamp = since(1, default_factory=Stamp, tag=0)
    sender: str | None = field("0-1", default=None)


def parcel(name: str, value: Any) -> Parcel:
    values: dict[str, Any] = {name: value}
    return Parcel(**values)


RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("version", [0, 1])
def test_numbers_are_written_up_to_their_bounds_and_no_further(name: str, version: int) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        message = parcel(name, value)
        assert Parcel.decode(message.encode(version), version) == message
    for value in (low - 1, high + 1):
        with pytest.raises(EncodeError, match=f"Parcel v{version} cannot hold these values"):
            parcel(name, value).encode(version)


@pytest.mark.parametrize("count", [1, 500])
def test_numbers_in_arrays_have_the_same_bounds(count: int) -> None:
    with pytest.raises(EncodeError):
        Parcel(numbers=[1 << 31] * count).encode(1)


@pytest.mark.parametrize("name", ["text", "data", "id", "numbers", "texts", "stamp", "int32", "float64", "weight"])
def test_null_where_there_is_no_null_is_an_error(name: str) -> None:
    for version in (1, 2):
        with pytest.raises(EncodeError):
            parcel(name, None).encode(version)


def test_null_is_refused_in_the_versions_that_have_no_null() -> None:
    assert Parcel.decode(Parcel(nullable_since_1=None).encode(1), 1).nullable_since_1 is None
    with pytest.raises(EncodeError, match="nullable_since_1 must not be null in version 0"):
        Parcel(nullable_since_1=None).encode(0)


def test_null_elements_are_an_error() -> None:
    for name in ("texts", "numbers", "stamps"):
        for version in (0, 1):
            with pytest.raises(EncodeError):
                parcel(name, [None]).encode(version)


@pytest.mark.parametrize(
    ("version", "values"),
    [(0, {"weight": 3}), (0, {"labels": ["x"]}), (0, {"seal": Stamp(country="CZ")}), (2, {"sender": "anna"})],
)
def test_what_the_version_cannot_say_is_an_error(version: int, values: dict[str, Any]) -> None:
    name = next(iter(values))
    with pytest.raises(EncodeError, match=f"{name} cannot be said in version {version}"):
        Parcel(**values).encode(version)


def test_a_default_that_the_version_cannot_say_is_left_out() -> None:
    assert Parcel(weight=-1, labels=[], seal=Stamp(), sender=None).encode(0) == Parcel().encode(0)


def test_what_may_be_ignored_is_left_out_and_read_as_its_default() -> None:
    assert Parcel.decode(Parcel(colour="red").encode(0), 0).colour == "brown"
    assert Parcel.decode(Parcel(colour="red").encode(1), 1).colour == "red"


def test_real_messages_follow_these_rules() -> None:
    with pytest.raises(EncodeError, match="allow_auto_topic_creation cannot be said in version 3"):
        MetadataRequest(topics=[MetadataRequestTopic(name="letters")], allow_auto_topic_creation=False).encode(3)
    with pytest.raises(EncodeError, match="name must not be null in version 9"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)
    assert FetchRequest.decode(FetchRequest(rack_id="ignored").encode(4), 4).rack_id == ""
    assert CreateTopicsRequest(topics=[CreatableTopic(name="letters")]).encode(2)


@pytest.mark.parametrize("version", [0, 1])
def test_a_string_has_at_most_32767_bytes(version: int) -> None:
    for text in ("x" * 32767, "é" * 16383):
        assert Parcel.decode(Parcel(text=text).encode(version), version).text == text
    for text in ("x" * 32768, "é" * 16384):
        with pytest.raises(EncodeError, match="text is longer than a string may be"):
            Parcel(text=text).encode(version)
        with pytest.raises(EncodeError, match="texts is longer than a string may be"):
            Parcel(texts=[text]).encode(version)


@pytest.mark.parametrize(
    "values",
    [
        {"text": b"bytes"},
        {"text": "\ud800"},
        {"text": 5},
        {"data": "text"},
        {"data": 5},
        {"id": b"too short"},
        {"id": "sixteen letters!"},
        {"numbers": 5},
        {"numbers": ["1"]},
        {"int32": "1"},
        {"int32": 1.5},
        {"float64": 10**400},
        {"stamp": "CZ"},
        {"stamps": ["CZ"]},
    ],
    ids=str,
)
def test_values_of_another_type_are_an_error(values: dict[str, Any]) -> None:
    for version in (0, 1):
        with pytest.raises(EncodeError):
            Parcel(**values).encode(version)


def test_what_fails_leaves_the_buffer_as_it_was() -> None:
    out = bytearray(b"head")
    for wrong in (Parcel(text="x", weight="heavy"), Parcel(text="x", labels=None)):  # type: ignore[arg-type]
        with pytest.raises(EncodeError):
            wrong.encode_into(out, 1)
        assert out == b"head"


def test_tagged_fields_are_written_when_they_are_not_at_their_default() -> None:
    def answer(leader: LeaderIdAndEpoch) -> bytes:
        partition = PartitionProduceResponse(index=3, current_leader=leader)
        return bytes(ProduceResponse(responses=[ProducedTopic(partition_responses=[partition])]).encode(10))

    with_leader = answer(LeaderIdAndEpoch(leader_id=1, leader_epoch=2))
    assert b"\1\0\x09\0\0\0\1\0\0\0\2\0" in with_leader
    assert len(with_leader) == len(answer(LeaderIdAndEpoch())) + 11


def test_a_tagged_struct_that_may_be_null_is_marked_as_kafka_marks_it() -> None:
    """Its default is an empty struct, so that null has to be said."""
    default = ConsumerGroupMemberMetadataValue().encode(0)
    assert default.endswith(b"\0")
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert null.encode(0) == default[:-1] + b"\1\0\1\0"
    assert ConsumerGroupMemberMetadataValue.decode(null.encode(0), 0) == null
    some = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=5))
    assert some.encode(0) == default[:-1] + b"\1\0\7\1\0\0\0\5\1\0"
    assert ConsumerGroupMemberMetadataValue.decode(some.encode(0), 0) == some


def test_encode_errors_are_codec_errors() -> None:
    assert issubclass(EncodeError, CodecError)
