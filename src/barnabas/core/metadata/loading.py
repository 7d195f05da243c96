"""Reads a log or a snapshot into an image that nobody has seen yet: a start reads a million records.

Nearly all of them are partitions and changes of partitions, and nearly all of these say the same of different
partitions: the bytes behind the partition's name are then the same, too. So these bytes are decoded once, and the
partition is changed in place. What comes out is what `MetadataImage.replay` makes of the decoded records, and whatever
is not the usual is left to it: other records, records within a transaction, and whatever is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from barnabas.core.metadata.records import decode_record
from barnabas.core.metadata.state import MetadataDelta, MetadataImage, TopicState, partition_of
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import FRAME_BYTES, metadata_frames
from barnabas.wire.uuids import Uuid

# Bytes of changes, and of partitions, that are remembered with what they say.
REMEMBERED_MAX: Final = 10_000
# Index and topic id come first in every version of both records.
_NAME: Final = struct.Struct(f">{FRAME_BYTES}xi16s")
_END_TOPICS: Final = (wire.RemoveTopicRecord, wire.EndTransactionRecord)


class ImageLoading:
    def __init__(self, image: MetadataImage) -> None:
        """Nobody else may have the image, or a partition of it, before the loading is over."""
        self.image = image
        self._topics: dict[bytes, TopicState] = {}
        # By the frame, then by what comes behind the name.
        self._changes = _remembered(wire.PartitionChangeRecord)
        self._partitions = _remembered(wire.PartitionRecord)

    def replay(self, values: Sequence[bytes]) -> None:
        """The framed records of a batch. Raises MetadataError, and UnsupportedMetadata for what cannot be decoded."""
        image, topics, unpack, size = self.image, self._topics, _NAME.unpack_from, _NAME.size
        find_changes, find_partitions = self._changes.get, self._partitions.get
        for value in values:
            frame = value[:FRAME_BYTES]
            known = find_changes(frame)
            is_change = known is not None
            if known is None:
                known = find_partitions(frame)
            if known is None or image.transaction is not None or len(value) < size:
                self._replay_other(value)
                continue
            record = known.get(value[size:])
            if record is None:
                record = _remember(known, value)
            index, topic_id = unpack(value)
            topic = topics.get(topic_id)
            if topic is None:
                topic = self._find_topic(topic_id)
            if topic is None:
                self._replay_other(value)
            elif not is_change:
                topic.partitions[index] = partition_of(topic, index, record)
            elif index in topic.partitions:
                topic.partitions[index].take(record)
            else:
                self._replay_other(value)

    def _find_topic(self, topic_id: bytes) -> TopicState | None:
        topic = self.image.topic_by_id(Uuid(topic_id))
        if topic is not None:
            self._topics[topic_id] = topic
        return topic

    def _replay_other(self, value: bytes) -> None:
        record = decode_record(value)
        self.image.replay(record, MetadataDelta())
        if isinstance(record, _END_TOPICS):
            self._topics.clear()


def _remembered(record_type: type[wire.PartitionChangeRecord | wire.PartitionRecord]) -> dict[bytes, dict[bytes, Any]]:
    return {frame: {} for frame in metadata_frames(record_type)}


def _remember(known: dict[bytes, Any], value: bytes) -> Any:
    record = decode_record(value)
    if len(known) >= REMEMBERED_MAX:
        known.clear()
    known[value[_NAME.size :]] = record
    return record
