"""By what a group notices that a topic it subscribes to has changed: a hash of id, name, partitions and racks.

It is the hash that Kafka writes (XXH3 over the same bytes), so that a group handed over is not rebalanced for nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import xxhash

from barnabas.core.groups.cluster import Cluster, TopicView

MAGIC = b"\0"
_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")
_UUID = struct.Struct(">qq")


def group_hash(topics: Iterable[str], image: Cluster) -> int:
    """Of the topics that exist."""
    known = sorted({name for name in topics if name in image.topics})
    if not known:
        return 0
    return _signed(b"".join(_INT64.pack(topic_hash(image.topics[name], image)) for name in known))


def topic_hash(topic: TopicView, image: Cluster) -> int:
    parts = bytearray(MAGIC)
    for half in _UUID.unpack(topic.topic_id):
        parts += _INT64.pack(half)
    _put_text(parts, topic.name)
    parts += _INT32.pack(len(topic.partitions))
    count = len(topic.partitions)
    if all(broker.rack is None for broker in image.brokers.values()):
        # Thousands of partitions are hashed within one heartbeat.
        parts += struct.pack(f"<{count}i", *range(count))
        return _signed(bytes(parts))
    for index in range(count):
        parts += _INT32.pack(index)
        for rack in partition_racks(topic, index, image):
            parts += _INT32.pack(len(rack))
            _put_text(parts, rack)
    return _signed(bytes(parts))


def partition_racks(topic: TopicView, index: int, image: Cluster) -> list[str]:
    """Of the replicas whose brokers have a rack, in the order of names."""
    state = topic.partitions.get(index)
    if state is None:
        return []
    brokers = (image.brokers.get(replica) for replica in state.replicas)
    return sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None)


def _put_text(out: bytearray, text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    out += units
    out += _INT32.pack(len(units) // 2)


def _signed(data: bytes) -> int:
    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >= 1 << 63 else value
