"""Every message and record in every version, with random values: what is read is what was written."""

import random

import pytest

from barnabas.wire.codec import DecodeError, EncodeError, compile_decoder, compile_encoder
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schema import Message
from barnabas.wire.shapes import Kind, fields_of
from tests.support.random_messages import RandomMessages, message_classes, versions_of

EXAMPLES = 12
CLASSES = message_classes()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_is_read_is_what_was_written(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for example in range(EXAMPLES):
            message = RandomMessages((cls.__name__, version, example)).message(cls, version)
            assert cls.decode(message.encode(version), version) == message, (version, example)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_defaults_survive_every_version(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert cls.decode(cls().encode(version), version) == cls(), version


def test_a_thousand_random_fetch_requests_survive() -> None:
    chance = RandomMessages("fetch")
    for _ in range(1000):
        version = chance.random.choice(versions_of(FetchRequest))
        request = chance.message(FetchRequest, version)
        assert FetchRequest.decode(request.encode(version), version) == request


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_any_buffer_can_be_read(kind: type) -> None:
    message = RandomMessages("buffers").message(ProduceRequest, 9)
    assert ProduceRequest.decode(kind(message.encode(9)), 9) == message


def test_records_are_a_view_of_the_frame_and_everything_else_a_copy() -> None:
    request = ProduceRequest(
        transactional_id="anna",
        topic_data=[TopicProduceData(name="letters", partition_data=[PartitionProduceData(records=b"\1\2\3")])],
    )
    frame = request.encode(9)
    read = ProduceRequest.decode(memoryview(frame), 9)
    frame[:] = bytes(len(frame))
    assert bytes(read.topic_data[0].partition_data[0].records or b"") == b"\0\0\0"
    assert (read.transactional_id, read.topic_data[0].name) == ("anna", "letters")


def test_a_message_is_read_from_the_middle_of_a_buffer() -> None:
    encoded = ListGroupsRequest(states_filter=["Stable"], types_filter=[]).encode(5)
    read, position = ListGroupsRequest.decode_from(b"head" + encoded + b"tail", 4, 5)
    assert read == ListGroupsRequest(states_filter=["Stable"], types_filter=[])
    assert position == 4 + len(encoded)


def test_a_message_is_written_behind_what_is_there() -> None:
    out = bytearray(b"head")
    ListGroupsRequest(states_filter=["Stable"]).encode_into(out, 4)
    assert out == b"head" + ListGroupsRequest(states_filter=["Stable"]).encode(4)


@pytest.mark.parametrize("version", [-1, 6, 32767])
def test_a_version_that_does_not_exist_is_an_error_on_both_sides(version: int) -> None:
    with pytest.raises(DecodeError, match=f"ListGroupsRequest has no version {version}"):
        ListGroupsRequest.decode(b"", version)
    with pytest.raises(EncodeError, match=f"ListGroupsRequest has no version {version}"):
        ListGroupsRequest().encode(version)


def test_compiled_codecs_are_what_decode_and_encode_use() -> None:
    out = bytearray()
    compile_encoder(ListGroupsRequest, 3)(ListGroupsRequest(), out)
    assert out == ListGroupsRequest().encode(3)
    assert compile_decoder(ListGroupsRequest, 3)(out, 0, len(out)) == (ListGroupsRequest(), len(out))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_two_messages_do_not_share_what_can_change(cls: type[Message]) -> None:
    first, second = cls(), cls()
    version = cls.valid_versions[1]
    third = cls.decode(RandomMessages(cls.__name__).message(cls, version).encode(version), version)
    for item in fields_of(cls):
        if item.is_array or item.kind is Kind.STRUCT:
            held = [getattr(message, item.name) for message in (first, second, third)]
            distinct = {id(value) for value in held if value is not None}
            assert len(distinct) == len([value for value in held if value is not None]), item.name


def test_random_messages_are_the_same_for_the_same_seed() -> None:
    def several() -> list[Message]:
        chance = RandomMessages("again")
        return [chance.message(cls, cls.valid_versions[0]) for cls in CLASSES]

    random.seed(1)
    first = several()
    random.seed(2)
    assert several() == first
