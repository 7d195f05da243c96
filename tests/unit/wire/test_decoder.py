"""Hostile bytes: whatever comes in, the outcome is a message or a DecodeError, soon and in little memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.wire.codec import compile_decoder, compile_stepwise_decoder, compile_stepwise_encoder
from barnabas.wire.decoder import least_width
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.primitives import (
    ELEMENTS_PER_STEP,
    MAX_REQUEST_ELEMENTS,
    MAX_TAGGED_FIELDS,
    CodecError,
    DecodeError,
    TooManyElements,
    put_uvarint,
)
from barnabas.wire.schema import Float64, Int32, Int64, Message, Records, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.random_messages import RandomMessages, message_classes, messages_and_versions, versions_of

CLASSES = message_classes()
FLEXIBLE = [cls for cls in CLASSES if cls.is_flexible(cls.valid_versions[1])]
HUGE_COMPACT = b"\xff\xff\xff\xff\x07"  # 2^31 - 1
HUGE = b"\x7f\xff\xff\xff"


class Inner(Struct):
    number: Int32 = 0
    text: str = ""


class Letter(Message, versions="0-1", flexible="1+"):
    """One field of each kind; version 0 is the encoding without tags."""

    text: str = ""
    nullable_text: str | None = None
    data: bytes = b""
    nullable_data: bytes | None = None
    records: Records | None = None
    id: Uuid = ZERO_UUID
    numbers: list[Int32] = field(default_factory=list)
    fractions: list[Float64] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ids: list[Uuid] = field(default_factory=list)
    inners: list[Inner] | None = field(default_factory=list)
    inner: Inner | None = None
    tagged: Int64 = since(1, default=7, tag=0)
    tagged_text: str | None = since(1, default=None, tag=3)


@contextmanager
def little_memory(limit: int = 100_000) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def uvarint(value: int) -> bytes:
    out = bytearray()
    put_uvarint(out, value)
    return bytes(out)


# The fields of a letter up to the last that has a length, as they look when they are empty: plain and compact.
EMPTY = {
    "text": (b"\0\0", b"\1"),
    "nullable_text": (b"\xff\xff", b"\0"),
    "data": (bytes(4), b"\1"),
    "nullable_data": (b"\xff" * 4, b"\0"),
    "records": (b"\xff" * 4, b"\0"),
    "id": (bytes(16), bytes(16)),
    "numbers": (bytes(4), b"\1"),
    "fractions": (bytes(4), b"\1"),
    "texts": (bytes(4), b"\1"),
    "ids": (bytes(4), b"\1"),
    "inners": (bytes(4), b"\1"),
}


def declared(name: str, version: int, length: bytes) -> bytes:
    """A letter up to the length of one field, empty before it."""
    names = list(EMPTY)
    return b"".join(EMPTY[before][version] for before in names[: names.index(name)]) + length


LONG_FIELDS = ["text", "nullable_text", "data", "nullable_data", "records"]
COUNTED_FIELDS = ["numbers", "fractions", "texts", "ids", "inners"]


@pytest.mark.parametrize("name", LONG_FIELDS + COUNTED_FIELDS)
@pytest.mark.parametrize("more", [b"", bytes(50)], ids=["at the end", "with bytes left"])
def test_a_length_above_what_is_left_is_refused_before_anything_is_allocated(name: str, more: bytes) -> None:
    lengths = {
        0: [b"\x7f\xff"] if name.endswith("text") else [HUGE, struct.pack(">i", len(more) + 1)],
        1: [HUGE_COMPACT, b"\xff\xff\xff\xff\x0f", uvarint(len(more) + 2), uvarint(20_000)],
    }
    for version in (0, 1):
        Letter.decode(Letter().encode(version), version)  # compiled, so that this is not measured
        for length in lengths[version]:
            with little_memory(20_000), pytest.raises(DecodeError, match=f"^{name} "):
                Letter.decode(declared(name, version, length) + more, version)


@pytest.mark.parametrize("cls", [Letter, *CLASSES], ids=lambda cls: cls.__name__)
def test_a_message_cut_anywhere_is_a_decode_error(cls: type[Message]) -> None:
    for version in versions_of(cls):
        encoded = bytes(short_message(cls, version).encode(version))
        for end in range(len(encoded)):
            with pytest.raises(DecodeError):
                cls.decode(encoded[:end], version)


@pytest.mark.parametrize("cls", [Letter, *CLASSES], ids=lambda cls: cls.__name__)
def test_flipped_bits_give_a_message_or_a_decode_error(cls: type[Message]) -> None:
    chance = random.Random(cls.__name__)
    for version in versions_of(cls):
        encoded = bytes(short_message(cls, version).encode(version))
        for _ in range(20 if encoded else 0):
            flipped = bytearray(encoded)
            for _ in range(chance.choice((1, 1, 1, 2, 5))):
                flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            survives_or_is_refused(cls, flipped, version)


@pytest.mark.parametrize("cls", [Letter, *CLASSES], ids=lambda cls: cls.__name__)
def test_random_bytes_give_a_message_or_a_decode_error(cls: type[Message]) -> None:
    chance = random.Random(cls.__name__)
    for version in versions_of(cls):
        for size in (0, 1, 2, 3, 8, 40, 200):
            survives_or_is_refused(cls, bytearray(chance.randbytes(size)), version)
            survives_or_is_refused(cls, bytearray(chance.choices(b"\0\1\2\x7f\x80\xff", k=size)), version)


def test_a_huge_length_anywhere_in_any_message_allocates_nothing() -> None:
    chance = random.Random("huge")
    attacks = []
    for cls, version in messages_and_versions():
        encoded = bytes(short_message(cls, version).encode(version))
        cls.decode(encoded, version)
        for position in sorted(chance.sample(range(len(encoded)), min(6, len(encoded)))):
            for huge in (HUGE_COMPACT, HUGE, b"\x7f\xff"):
                attacks.append((cls, version, encoded[:position] + huge + encoded[position + len(huge) :]))
    with little_memory(2_000_000):
        for cls, version, data in attacks:
            try:
                cls.decode(data, version)
            except DecodeError:
                pass


def short_message(cls: type[Message], version: int) -> Message:
    """The first of the random ones that is short enough to be cut everywhere, in a test that ends soon."""
    for example in range(100):
        message = RandomMessages((cls.__name__, version, example)).message(cls, version, default_share=0.1)
        if len(message.encode(version)) < 250:
            return message
    raise AssertionError(f"{cls.__name__} version {version} is always long")


def survives_or_is_refused(cls: type[Message], data: bytearray, version: int) -> None:
    try:
        message = cls.decode(data, version)
    except DecodeError:
        return
    encoded = message.encode(version)
    assert cls.decode(encoded, version).encode(version) == encoded


@pytest.mark.parametrize("cls", FLEXIBLE, ids=lambda cls: cls.__name__)
def test_unknown_tags_are_skipped(cls: type[Message]) -> None:
    chance = RandomMessages(cls.__name__)
    for version in versions_of(cls):
        if not cls.is_flexible(version):
            continue
        message = chance.message(cls, version, default_share=1)
        encoded = message.encode(version)
        assert encoded.pop() == 0, "the number of tagged fields comes last"
        unknown = b"\2" + uvarint(1000) + b"\0" + uvarint(2**32 - 1) + b"\3abc"
        assert cls.decode(encoded + unknown, version) == message


def test_unknown_tags_stand_between_known_ones() -> None:
    encoded = Letter(tagged=8, tagged_text="x").encode(1)
    tags = b"\2\0\x08" + struct.pack(">q", 8) + b"\3\2\2x"
    assert encoded.endswith(tags)
    with_unknown = b"\4\0\x08" + struct.pack(">q", 8) + b"\1\0" + b"\3\2\2x" + b"\x80\1\1?"
    assert Letter.decode(encoded.removesuffix(tags) + with_unknown, 1) == Letter(tagged=8, tagged_text="x")


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        (b"\1\0\7" + bytes(8), "tagged is not as long as its tag says"),
        (b"\1\0\x09" + bytes(9), "tagged is not as long as its tag says"),
        (b"\1\0\x08" + bytes(7), "a tagged field says that it is longer"),
        (b"\1\3\3\2x?", "tagged_text is not as long as its tag says"),
        (b"\1\3\2\3xy", "tagged_text is not as long as its tag says|longer"),
        (b"\1\x63" + HUGE_COMPACT, "a tagged field says that it is longer"),
        (b"\1", "Letter version 1 ends too early"),
        (b"\1\0", "Letter version 1 ends too early"),
        (b"\x80\1" + b"\x63\0" * 128, f"more than {MAX_TAGGED_FIELDS} tagged fields"),
    ],
)
def test_a_tagged_field_that_lies_is_a_decode_error(tags: bytes, complaint: str) -> None:
    head = Letter().encode(1).removesuffix(b"\0")
    with pytest.raises(DecodeError, match=complaint):
        Letter.decode(head + tags, 1)


@pytest.mark.parametrize("name", ["text", "data", "numbers", "fractions", "texts", "ids"])
def test_null_where_there_is_no_null_is_a_decode_error(name: str) -> None:
    with pytest.raises(DecodeError, match=f"^{name} must not be null"):
        Letter.decode(declared(name, 1, b"\0") + bytes(100), 1)
    for length in (-1, -2, -32768):
        packed = struct.pack(">h" if name == "text" else ">i", length)
        with pytest.raises(DecodeError, match=f"^{name} must not be null"):
            Letter.decode(declared(name, 0, packed) + bytes(100), 0)


def test_any_negative_length_means_null_as_it_does_for_kafka() -> None:
    encoded = Letter().encode(0)
    position = encoded.index(b"\xff\xff")
    encoded[position : position + 2] = b"\x80\0"
    assert Letter.decode(encoded, 0).nullable_text is None


def test_bytes_left_over_are_a_decode_error() -> None:
    for version in (0, 1):
        with pytest.raises(DecodeError, match=f"3 bytes are left over after Letter version {version}"):
            Letter.decode(Letter().encode(version) + b"\0\0\0", version)


@pytest.mark.parametrize("length", [b"\x80\x80\x80\x80\x10", b"\xff" * 4 + b"\x7f", b"\xff" * 5 + b"\1", b"\xff" * 10])
def test_a_varint_of_more_than_32_bits_is_a_decode_error(length: bytes) -> None:
    with pytest.raises(DecodeError, match="more than 32 bits"):
        Letter.decode(length + bytes(50), 1)


def test_a_compact_string_is_no_longer_than_a_plain_one_can_be() -> None:
    encoded = Letter(text="x" * 32767).encode(1)
    assert Letter.decode(encoded, 1).text == "x" * 32767
    with pytest.raises(DecodeError, match="text is longer than a string may be"):
        Letter.decode(uvarint(32769) + b"x" * 40_000, 1)


def test_text_that_is_not_utf_8_is_read_with_replacement_characters() -> None:
    assert Letter.decode(Letter(text="ab").encode(1).replace(b"ab", b"a\xff"), 1).text == "a\ufffd"


def test_a_request_holds_a_limited_number_of_elements() -> None:
    groups = MAX_REQUEST_ELEMENTS
    assert len(DescribeGroupsRequest.decode(uvarint(groups + 1) + b"\1" * groups + b"\0\0", 5).groups) == groups
    frame = uvarint(groups + 2) + b"\1" * (groups + 1) + b"\0\0"
    with little_memory(), pytest.raises(DecodeError, match=f"groups brings the request above {groups} elements"):
        DescribeGroupsRequest.decode(frame, 5)


def test_numbers_in_arrays_are_elements_too() -> None:
    numbers = MAX_REQUEST_ELEMENTS
    topic = DescribeProducersRequest(topics=[TopicRequest(partition_indexes=[1] * (numbers - 1))])
    assert len(DescribeProducersRequest.decode(topic.encode(0), 0).topics[0].partition_indexes) == numbers - 1
    topic.topics[0].partition_indexes *= 80
    with pytest.raises(TooManyElements, match=f"partition_indexes brings the request above {numbers} elements"):
        DescribeProducersRequest.decode(topic.encode(0), 0)


def test_elements_are_counted_across_arrays_and_tagged_fields() -> None:
    decode = compile_decoder(FetchRequest, 12, 10)

    def read(topics: int, partitions: int, tags: int = 0) -> FetchRequest:
        request = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition()] * partitions)] * topics)
        encoded = request.encode(12)[:-1] + bytes([tags]) + b"\x63\0" * tags
        message: FetchRequest = decode(encoded, 0, len(encoded))[0]
        return message

    assert len(read(topics=2, partitions=4).topics[1].partitions) == 4
    assert read(topics=2, partitions=3, tags=2)
    with pytest.raises(DecodeError, match="partitions brings the request above 10 elements"):
        read(topics=2, partitions=5)
    with pytest.raises(DecodeError, match="a tagged field brings the request above 10 elements"):
        read(topics=2, partitions=3, tags=3)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_message_read_and_written_in_steps_is_the_same(cls: type[Message]) -> None:
    for version in versions_of(cls):
        check_steps(cls, version)


def check_steps(cls: type[Message], version: int) -> None:
    message = RandomMessages(f"steps {cls.__name__} {version}").message(cls, version)
    encoded = bytes(message.encode(version))
    decoded = exhaust(compile_stepwise_decoder(cls, version)(encoded, 0, len(encoded)))[1]
    assert decoded == (cls.decode(encoded, version), len(encoded))
    out = bytearray(b"before")
    exhaust(compile_stepwise_encoder(cls, version)(message, out))
    assert bytes(out) == b"before" + encoded


def test_steps_are_short_whether_there_are_many_elements_or_many_bytes() -> None:
    names = [""] * 50 * ELEMENTS_PER_STEP
    for groups, least in ((names, 50), (["x" * 30_000] * 500, 10)):
        request = DescribeGroupsRequest(groups=groups)
        out = bytearray()
        written = exhaust(compile_stepwise_encoder(DescribeGroupsRequest, 5)(request, out))[0]
        read, decoded = exhaust(compile_stepwise_decoder(DescribeGroupsRequest, 5)(out, 0, len(out)))
        assert decoded[0] == request
        assert least <= written <= 2 * least
        assert least <= read <= 2 * least


def exhaust(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """How many steps there are, and the result."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            return count, finished.value
        count += 1


def test_answers_and_records_hold_as_much_as_they_need() -> None:
    texts = [""] * (MAX_REQUEST_ELEMENTS + 1)
    assert Letter.decode(Letter(texts=texts).encode(1), 1).texts == texts


def test_forty_megabytes_of_tagged_fields_are_refused_at_once() -> None:
    frame = b"\1\0" + uvarint(20_000_000) + b"\x63\0" * 20_000_000
    DescribeGroupsRequest.decode(DescribeGroupsRequest().encode(5), 5)
    with little_memory(), pytest.raises(DecodeError, match="tagged fields"):
        DescribeGroupsRequest.decode(frame, 5)


def test_the_least_width_of_a_struct_is_what_its_shortest_form_takes() -> None:
    for version in versions_of(FetchRequest):
        none, one = ([FetchTopic(partitions=[FetchPartition()] * count)] for count in (0, 1))
        difference = len(FetchRequest(topics=one).encode(version)) - len(FetchRequest(topics=none).encode(version))
        assert least_width(FetchPartition, version, FetchRequest.is_flexible(version)) == difference


def test_decode_errors_are_codec_errors() -> None:
    assert issubclass(DecodeError, CodecError)
