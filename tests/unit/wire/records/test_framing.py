"""Metadata records in their frame."""

import pytest

from barnabas.wire.codec import DecodeError
from barnabas.wire.records.framing import (
    decode_metadata_record,
    decode_plain_metadata_records,
    encode_metadata_record,
    metadata_record_types,
)
from barnabas.wire.records.metadata import FeatureLevelRecord, NoOpRecord, TopicRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ONE_UUID
from tests.support.random_messages import RandomMessages, versions_of


def test_a_frame_is_its_version_the_type_the_records_version_and_the_record() -> None:
    record = TopicRecord(name="letters", topic_id=ONE_UUID)
    encoded = encode_metadata_record(record, 0)
    assert encoded == b"\1\2\0" + b"\x08letters" + ONE_UUID + b"\0"
    assert decode_metadata_record(encoded) == (record, 0)
    assert encode_metadata_record(NoOpRecord(), 0) == b"\1\x14\0\0"


@pytest.mark.parametrize("cls", metadata_record_types().values(), ids=lambda cls: cls.__name__)
def test_every_record_survives_in_every_version(cls: type[Record]) -> None:
    chance = RandomMessages(cls.__name__)
    for version in versions_of(cls):
        for _ in range(20):
            record = chance.message(cls, version)
            encoded = encode_metadata_record(record, version)
            assert decode_metadata_record(encoded) == (record, version)
            assert decode_metadata_record(memoryview(encoded)) == (record, version)


def test_many_records_are_read_as_one_by_one() -> None:
    chance = RandomMessages("many")
    found = [
        (chance.message(cls, version), version)
        for cls in metadata_record_types().values()
        for version in versions_of(cls)
        for _ in range(3)
    ]
    values = [encode_metadata_record(record, version) for record, version in found]
    for _ in range(2):
        assert decode_plain_metadata_records(values) == [record for record, _ in found]
    longer = b"\x81\x00" + values[0][1:]  # its frame version in two bytes
    assert decode_plain_metadata_records([longer]) == [found[0][0]]
    for wrong in (values[0] + b"\0", values[0][:-1], b"\1", b"", b"\1\x63\0", b"\2" + values[0][1:]):
        with pytest.raises(DecodeError):
            decode_plain_metadata_records([values[0], wrong])


def test_all_types_are_known() -> None:
    assert sorted(metadata_record_types()) == [*range(6), *range(7, 13), 14, 15, *range(17, 29)]
    assert metadata_record_types()[12] is FeatureLevelRecord


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "ends within its frame"),
        (b"\1", "ends within its frame"),
        (b"\1\x80", "ends within its frame"),
        (b"\0\x14\0\0", "metadata frame version 0 is unknown"),
        (b"\2\x14\0\0", "metadata frame version 2 is unknown"),
        (b"\1\6\0\0", "metadata record type 6 is unknown"),
        (b"\1\xff\xff\xff\xff\x0f\0\0", "metadata record type 4294967295 is unknown"),
        (b"\1\x14\1\0", "NoOpRecord has no version 1"),
        (b"\1\x14\0", "NoOpRecord version 0 ends too early"),
        (b"\1\x14\0\0\0", "1 bytes are left over after NoOpRecord"),
        (b"\1\x14\xff\xff\xff\xff\xff\1", "more than 32 bits"),
    ],
)
def test_what_is_no_metadata_record_is_a_decode_error(data: bytes, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_metadata_record(data)
