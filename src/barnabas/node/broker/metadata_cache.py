"""Metadata answers, encoded once per image, version and listener.

Clients ask for the same topics again and again, and an answer for thousands of partitions is long. So each topic is
packed by hand, and kept: an answer is its head, the topics that were asked for, and its end. When the image changes,
a kept topic is still right if its partitions are the very same objects, because a change replaces them; when brokers
change, everything is packed anew. Partitions with the same leader, epoch and replicas differ only in their index, so
what follows the index is packed once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.core.controller.topic_names import INTERNAL_TOPICS
from barnabas.core.controller.view import ImageView
from barnabas.core.metadata.state import MetadataImage, PartitionState, TopicState
from barnabas.core.security.model import OPERATIONS_NOT_ASKED_FOR
from barnabas.node.requests import RawResponse
from barnabas.wire.codec import put_uvarint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from barnabas.wire.uuids import ZERO_UUID, Uuid

INTERNAL_SINCE = 1
THROTTLE_TIME_SINCE = 3
OFFLINE_SINCE = 5
LISTENER_ERRORS_SINCE = 6
EPOCHS_SINCE = 7
OPERATIONS_SINCE = 8
FLEXIBLE_SINCE = 9
IDS_SINCE = 10
NULL_NAMES_SINCE = 12
FORGOTTEN_MAX = 1000

_error = struct.Struct(">h").pack
_number = struct.Struct(">i").pack
_NO_ERROR = _error(0)
_SMALL_COUNTS = [bytes([count + 1]) for count in range(127)]


class MetadataCache:
    """The encoded answers of one node."""

    def __init__(self, node_id: int, cluster_id: str) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._answers: dict[tuple[int, str], EncodedMetadata] = {}

    def encoded(self, image: MetadataImage, version: int, listener: str) -> EncodedMetadata:
        answers = self._answers.get((version, listener))
        if answers is None or not answers.follow(image):
            answers = EncodedMetadata(image, version, listener, self._node_id, self._cluster_id)
            self._answers[version, listener] = answers
        return answers


@dataclass(slots=True)
class _Kept:
    """A packed topic, up to which image it is known to be right, and what it was packed of."""

    packed: bytes
    offset: int
    topic_id: Uuid
    partitions: list[PartitionState]
    answer: bytes | None = None  # to who asks for nothing but this topic


class EncodedMetadata:
    """The parts of Metadata answers of one version on one listener."""

    def __init__(self, image: MetadataImage, version: int, listener: str, node_id: int, cluster_id: str) -> None:
        self.image = image
        self.version = version
        self.view = ImageView(image, listener)
        self._offset = image.offset
        self._brokers = image.brokers.copy()
        self._flexible = version >= FLEXIBLE_SINCE
        self._frame = MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
                for broker, endpoint in self.view.alive_brokers()
            ],
            cluster_id=cluster_id,
            controller_id=self.view.controller_id(node_id),
        )
        self._topics: dict[str, _Kept] = {}
        self._partition_ends: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
        self._all_topics: bytes | None = None
        self._not_asked = self._topic_end(OPERATIONS_NOT_ASKED_FOR)

    def follow(self, image: MetadataImage) -> bool:
        """Goes on with an image that has changed; False if nothing of what is kept can be right any more."""
        if image is self.image and image.offset == self._offset:
            return True
        if image is not self.image or image.brokers != self._brokers:
            return False
        self._offset = image.offset
        self._all_topics = None
        if len(self._topics) > 2 * len(image.topics) + FORGOTTEN_MAX:
            self._topics = {name: kept for name, kept in self._topics.items() if name in image.topics}
        if len(self._partition_ends) > FORGOTTEN_MAX:
            self._partition_ends.clear()
        return True

    def all_topics(self) -> RawResponse:
        """Every topic, without authorized operations."""
        if self._all_topics is None:
            self._all_topics = self._join([self.topic(name) for name in self.image.topics], OPERATIONS_NOT_ASKED_FOR)
        return self._raw(self._all_topics)

    def only_topic(self, name: str) -> RawResponse:
        """One topic that exists, without authorized operations."""
        kept = self._topics.get(name)
        if kept is None or kept.offset != self._offset:
            kept = self._topics[name] = self._keep(name, kept)
        if kept.answer is None:
            kept.answer = self._join([kept.packed], OPERATIONS_NOT_ASKED_FOR)
        return self._raw(kept.answer)

    def answer(self, topics: Sequence[bytes], cluster_operations: int = OPERATIONS_NOT_ASKED_FOR) -> RawResponse:
        return self._raw(self._join(topics, cluster_operations))

    def _raw(self, packed: bytes) -> RawResponse:
        return RawResponse([packed], begins_with_throttle_time=self.version >= THROTTLE_TIME_SINCE)

    def topic(self, name: str, operations: int = OPERATIONS_NOT_ASKED_FOR) -> bytes:
        """A topic that exists."""
        kept = self._topics.get(name)
        if kept is None or kept.offset != self._offset:
            kept = self._topics[name] = self._keep(name, kept)
        if operations == OPERATIONS_NOT_ASKED_FOR:
            return kept.packed
        return kept.packed[: len(kept.packed) - len(self._not_asked)] + self._topic_end(operations)

    def refused(
        self,
        error: ErrorCode,
        name: str | None,
        topic_id: Uuid = ZERO_UUID,
        operations: int = OPERATIONS_NOT_ASKED_FOR,
        *,
        internal: bool = False,
    ) -> bytes:
        """A topic about which nothing but an error is told."""
        return self._topic_start(error, name, topic_id, internal) + self._count(0) + self._topic_end(operations)

    def _join(self, topics: Sequence[bytes], cluster_operations: int) -> bytes:
        if OPERATIONS_SINCE <= self.version < 11:
            self._frame.cluster_authorized_operations = cluster_operations
        frame = self._frame.encode(self.version)
        # The frame holds an empty list of topics, and after it only what has a fixed length.
        end = len(frame) - (self._flexible + 4 * (OPERATIONS_SINCE <= self.version < 11) + 2 * (self.version >= 13))
        start = end - len(self._count(0))
        return b"".join((frame[:start], self._count(len(topics)), *topics, frame[end:]))

    def _keep(self, name: str, kept: _Kept | None) -> _Kept:
        topic = self.image.topics[name]
        partitions = list(topic.partitions.values())
        if kept is not None and kept.topic_id == topic.topic_id and kept.partitions == partitions:
            kept.offset = self._offset
            return kept
        return _Kept(self._pack(topic), self._offset, topic.topic_id, partitions)

    def _pack(self, topic: TopicState) -> bytes:
        name = topic.name
        partitions = topic.partitions
        ends = self._partition_ends
        parts = [
            self._topic_start(ErrorCode.NONE, name, topic.topic_id, name in INTERNAL_TOPICS),
            self._count(len(partitions)),
        ]
        for index in sorted(partitions) if len(partitions) > 1 else partitions:
            partition = partitions[index]
            same = (
                partition.leader,
                partition.leader_epoch,
                *partition.replicas,
                None,
                *partition.isr,
                *partition.directories,
            )
            packed = ends.get(same)
            if packed is None:
                packed = ends[same] = self._partition(partition)
            parts += (packed[0], index.to_bytes(4), packed[1])
        parts.append(self._not_asked)
        return b"".join(parts)

    def _topic_start(self, error: ErrorCode, name: str | None, topic_id: Uuid, internal: bool) -> bytes:
        start = (_error(error) if error else _NO_ERROR) + self._string(name)
        if self.version >= IDS_SINCE:
            return start + topic_id + (b"\1" if internal else b"\0")
        if self.version >= INTERNAL_SINCE:
            return start + (b"\1" if internal else b"\0")
        return start

    def _topic_end(self, operations: int) -> bytes:
        out = _number(operations) if self.version >= OPERATIONS_SINCE else b""
        return out + b"\0" if self._flexible else out

    def _partition(self, partition: PartitionState) -> tuple[bytes, bytes]:
        """What stands before its index, and what behind."""
        seen = self.view.partition(partition)
        error, replicas, isr = seen.error, partition.replicas, partition.isr
        if error is ErrorCode.LISTENER_NOT_FOUND and self.version < LISTENER_ERRORS_SINCE:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        if self.version == 0:
            # Version 0 leaves out replicas that are not there, and says that it did.
            replicas, isr = [list(filter(self.view.is_alive, each)) for each in (replicas, isr)]
            left_out = len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)
            if error is ErrorCode.NONE and left_out:
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        out = bytearray(_number(seen.leader))
        if self.version >= EPOCHS_SINCE:
            out += _number(partition.leader_epoch)
        out += self._numbers(replicas)
        out += self._numbers(isr)
        if self.version >= OFFLINE_SINCE:
            out += self._numbers(seen.offline_replicas)
        if self._flexible:
            out.append(0)
        return _error(error), bytes(out)

    def _numbers(self, numbers: list[int]) -> bytes:
        return self._count(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)

    def _count(self, count: int) -> bytes:
        if not self._flexible:
            return _number(count)
        if count < 127:
            return _SMALL_COUNTS[count]
        out = bytearray()
        put_uvarint(out, count + 1)
        return bytes(out)

    def _string(self, text: str | None) -> bytes:
        if text is None:
            if self.version < NULL_NAMES_SINCE:
                text = ""
            else:
                return b"\0"
        data = text.encode()
        return (self._count(len(data)) if self._flexible else _error(len(data))) + data
