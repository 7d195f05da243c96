"""What consumers of the classic protocol put into their subscriptions and find in their assignments."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from barnabas.core.groups.cluster import Cluster
from barnabas.wire.primitives import CodecError
from barnabas.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.wire.uuids import Uuid

_INT16 = struct.Struct(">h")
VERSION_MAX = 3


class Malformed(ValueError):
    """It is not what the consumer protocol says it should be."""


def version_of(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise Malformed("no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise Malformed(f"version {version}")
    return min(version, VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    try:
        return ConsumerProtocolSubscription.decode_from(data, _INT16.size, version_of(data))[0]
    except (CodecError, struct.error, UnicodeDecodeError, IndexError) as error:
        raise Malformed(str(error)) from error


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    try:
        return ConsumerProtocolAssignment.decode_from(data, _INT16.size, version_of(data))[0]
    except (CodecError, struct.error, UnicodeDecodeError, IndexError) as error:
        raise Malformed(str(error)) from error


def write_assignment(target: Mapping[Uuid, Iterable[int]], version: int, image: Cluster) -> bytes:
    """Topics that are no more are left out."""
    listed = [
        ConsumerProtocolAssignmentTopicPartition(topic=image.topic_names[topic_id], partitions=sorted(partitions))
        for topic_id, partitions in target.items()
        if topic_id in image.topic_names
    ]
    out = bytearray(_INT16.pack(version))
    ConsumerProtocolAssignment(assigned_partitions=listed).encode_into(out, version)
    return bytes(out)
