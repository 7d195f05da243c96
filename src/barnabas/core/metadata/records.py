"""What the metadata log may hold: the record types, and in which version each is written at each metadata.version.

A level is a number that a cluster has finalized for the feature `metadata.version`; no node writes a record version
that a node of that level might not read. We read and write levels 25 (4.0-IV3) to 30 (4.3-IV0), create at 30, and keep
the level found. A record that we do not know would be lost by our next snapshot, so it is an error and never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.wire.codec import DecodeError
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import (
    decode_metadata_record,
    decode_plain_metadata_records,
    encode_metadata_record,
    metadata_record_types,
)
from barnabas.wire.schema import Record

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
STREAMS_VERSION = "streams.version"

LEVEL_NAMES: Mapping[int, str] = {
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
LEVEL_MIN = min(LEVEL_NAMES)
LEVEL_MAX = max(LEVEL_NAMES)
LEVEL_WRITTEN = 30

# What a node of ours can work with; a broker and a controller register these ranges.
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (LEVEL_MIN, LEVEL_MAX),
    KRAFT_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
}
# What a new cluster begins with. Later only `kafka-features` changes them.
FORMATTED_FEATURES: Mapping[str, int] = {
    TRANSACTION_VERSION: 2,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
}

_FROM_25: Mapping[type[Record], int] = {
    wire.RegisterBrokerRecord: 3,
    wire.PartitionRecord: 2,
    wire.PartitionChangeRecord: 2,
    wire.BrokerRegistrationChangeRecord: 2,
}
_FROM_30: Mapping[type[Record], int] = {
    **_FROM_25,
    wire.RegisterBrokerRecord: 4,
    wire.BrokerRegistrationChangeRecord: 3,
}
# Record types that are not named have version 0 at every level.
RECORD_VERSIONS: Mapping[int, Mapping[type[Record], int]] = {
    level: _FROM_30 if level >= 30 else _FROM_25 for level in LEVEL_NAMES
}


class MetadataError(Exception):
    """The metadata cannot be what these records say: a log that was not written as Kafka writes it."""


class UnsupportedMetadata(MetadataError):
    """Written for a Kafka that we do not know: a level, a record type or a record version."""


def check_level(level: int) -> None:
    if level not in LEVEL_NAMES:
        raise UnsupportedMetadata(
            f"metadata.version {level} is not supported: this node reads {LEVEL_MIN} ({LEVEL_NAMES[LEVEL_MIN]})"
            f" to {LEVEL_MAX} ({LEVEL_NAMES[LEVEL_MAX]})"
        )


def record_version(record_type: type[Record], level: int) -> int:
    check_level(level)
    if metadata_record_types().get(record_type.api_key) is not record_type:
        raise UnsupportedMetadata(f"{record_type.__name__} is not a record of the metadata log")
    return RECORD_VERSIONS[level].get(record_type, 0)


def encode_record(record: Record, level: int) -> bytes:
    return encode_metadata_record(record, record_version(type(record), level))


def decode_plain_records(values: Sequence[bytes]) -> list[Record]:
    try:
        return decode_plain_metadata_records(values)
    except DecodeError as error:
        raise UnsupportedMetadata(str(error)) from error


def decode_record(data: bytes | None) -> Record:
    if data is None:
        raise MetadataError("a record of the metadata log has no value")
    try:
        return decode_metadata_record(data)[0]
    except DecodeError as error:
        raise UnsupportedMetadata(str(error)) from error
