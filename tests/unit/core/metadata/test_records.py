"""Record versions by level, and what is refused."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.records import (
    LEVEL_NAMES,
    LEVEL_WRITTEN,
    MetadataError,
    UnsupportedMetadata,
    check_level,
    decode_record,
    encode_record,
    record_version,
)
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import metadata_record_types
from barnabas.wire.records.raft import VotersRecord


def test_we_create_at_the_level_that_every_kafka_from_4_0_opens() -> None:
    assert LEVEL_NAMES[LEVEL_WRITTEN] == "4.3-IV0"
    assert list(LEVEL_NAMES) == list(range(25, 31))


def test_only_level_30_brought_new_record_versions() -> None:
    for level in range(25, 30):
        assert record_version(wire.RegisterBrokerRecord, level) == 3
        assert record_version(wire.BrokerRegistrationChangeRecord, level) == 2
    assert record_version(wire.RegisterBrokerRecord, 30) == 4
    assert record_version(wire.BrokerRegistrationChangeRecord, 30) == 3
    for level in LEVEL_NAMES:
        assert record_version(wire.PartitionRecord, level) == 2
        assert record_version(wire.PartitionChangeRecord, level) == 2
        assert record_version(wire.TopicRecord, level) == 0


@pytest.mark.parametrize("level", LEVEL_NAMES)
def test_every_record_type_is_written_in_a_version_that_it_has(level: int) -> None:
    for record_type in metadata_record_types().values():
        low, high = record_type.valid_versions
        assert low <= record_version(record_type, level) <= high
        record = record_type()
        assert decode_record(encode_record(record, level)) == record


@pytest.mark.parametrize("level", [0, 7, 24, 31])
def test_another_level_is_refused_with_the_levels_that_are_read(level: int) -> None:
    with pytest.raises(UnsupportedMetadata, match=rf"{level} is not supported: .* 25 \(4.0-IV3\) to 30 \(4.3-IV0\)"):
        check_level(level)


def test_a_record_of_another_log_has_no_version() -> None:
    with pytest.raises(UnsupportedMetadata, match="VotersRecord"):
        record_version(VotersRecord, 25)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes([1, 99, 0, 0]), "type 99 is unknown"),
        (bytes([1, 2, 7]), "TopicRecord has no version 7"),
        (bytes([2, 2, 0]), "frame version 2 is unknown"),
        (bytes([1]), "ends within its frame"),
        (bytes([1, 20, 0, 0, 0]), "left over"),
    ],
)
def test_what_we_do_not_know_is_an_error_that_names_it(data: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedMetadata, match=reason):
        decode_record(data)


def test_a_record_without_a_value_is_an_error() -> None:
    with pytest.raises(MetadataError, match="has no value"):
        decode_record(None)
