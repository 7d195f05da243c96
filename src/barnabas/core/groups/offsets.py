"""Committed offsets: how far each group has come in each partition.

An offset is committed at once, or with a producer's transaction: then it is pending until the transaction's marker
decides about it. If both happen to one partition, the one that was written later counts, whenever the marker comes;
`order` says which that is. A tombstone removes both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.core.coordinator.decision import Marker, Producer
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.kinds import Group
from barnabas.core.groups.records import NO_TIMESTAMP, OFFSET_VERSION, offset_tombstone
from barnabas.core.groups.state import ClassicGroup, Phase
from barnabas.wire.primitives import CodecError
from barnabas.wire.records.groups import OffsetCommitKey, OffsetCommitValue

K = TypeVar("K")
V = TypeVar("V")
TopicPartition = tuple[str, int]

_BEFORE_METADATA = struct.Struct(">qih")
_INT64 = struct.Struct(">q")
_WITHOUT_METADATA = struct.Struct(">2xqi2xq")
_VERSION = OFFSET_VERSION.to_bytes(2, "big")


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    order: int


class Tables(Generic[K, V]):
    """Tables by name; one that was never written to is empty."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._tables: dict[K, TimelineDict[TopicPartition, V]] = {}
        self._nothing: TimelineDict[TopicPartition, V] = TimelineDict(timeline)

    def get(self, name: K) -> TimelineDict[TopicPartition, V]:
        """To read from."""
        return self._tables.get(name, self._nothing)

    def of(self, name: K) -> TimelineDict[TopicPartition, V]:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = TimelineDict(self._timeline)
        return table

    def items(self) -> Iterator[tuple[K, TimelineDict[TopicPartition, V]]]:
        return ((name, table) for name, table in self._tables.items() if len(table))

    def names(self) -> Iterable[K]:
        return self._tables

    def prune(self) -> None:
        for name in [name for name, table in self._tables.items() if table.is_unused]:
            del self._tables[name]


# A topic and the table of its group.
LoadTarget = tuple[str, TimelineDict[TopicPartition, CommittedOffset]]


class Offsets:
    def __init__(self, timeline: Timeline) -> None:
        self._by_group: Tables[str, CommittedOffset] = Tables(timeline)
        # By producer and group.
        self._pending: Tables[tuple[int, str], CommittedOffset] = Tables(timeline)
        # The producers that have or had something pending in a group, so that nobody looks through those of others.
        self._producers: dict[str, set[int]] = {}
        self._order = 0

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer: Producer | None) -> None:
        at = (key.topic, key.partition)
        if value is None:
            self._by_group.of(key.group).pop(at)
            for table in self._pending_tables(key.group):
                table.pop(at)
            return
        self._order += 1
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            self._order,
        )
        if producer is None:
            self._by_group.of(key.group)[at] = committed
        else:
            self._producers.setdefault(key.group, set()).add(producer.producer_id)
            self._pending.of((producer.producer_id, key.group))[at] = committed

    def load_target(self, group_id: str, topic: str) -> LoadTarget:
        return topic, self._by_group.of(group_id)

    def load(
        self,
        entries: Sequence[tuple[bytes, bytes | None]],
        start: int,
        targets: Mapping[bytes, LoadTarget],
        find: Callable[[bytes], LoadTarget | None],
    ) -> int:
        """As `replay`, of bytes: keys and values of version 3 from `start` on, as far as they are. A loop of a million
        turns, hence in one piece."""
        order, new, unpack = self._order, tuple.__new__, _WITHOUT_METADATA.unpack
        number = start
        try:
            for number in range(start, len(entries)):
                key, value = entries[number]
                if value is None or value[:2] != _VERSION:
                    break
                target = targets.get(key[:-4]) or find(key)
                if target is None:
                    break
                if len(value) == _WITHOUT_METADATA.size:
                    offset, leader_epoch, timestamp_ms = unpack(value)
                    metadata = ""
                else:
                    offset, leader_epoch, size = _BEFORE_METADATA.unpack_from(value, 2)
                    metadata = value[16 : 16 + size].decode()
                    (timestamp_ms,) = _INT64.unpack_from(value, 16 + size)
                order += 1
                topic, table = target
                fields = (offset, leader_epoch, metadata, timestamp_ms, NO_TIMESTAMP, order)
                table[topic, int.from_bytes(key[-4:], "big")] = new(CommittedOffset, fields)
            else:
                number = len(entries)
        except (CodecError, UnicodeDecodeError, struct.error):
            pass  # whoever reads it field by field will say what is wrong
        self._order = order
        return number

    def replay_marker(self, marker: Marker) -> None:
        for (producer_id, group_id), table in list(self._pending.items()):
            if producer_id != marker.producer_id:
                continue
            for at, committed in list(table.items()):
                table.pop(at)
                if marker.committed:
                    offsets = self._by_group.of(group_id)
                    present = offsets.get(at)
                    if present is None or present.order < committed.order:
                        offsets[at] = committed

    # What there is

    def latest(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id).get((topic, partition))

    def committed(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id).committed((topic, partition))

    def all_latest(self, group_id: str) -> list[tuple[TopicPartition, CommittedOffset]]:
        return list(self._by_group.get(group_id).items())

    def all_committed(self, group_id: str) -> list[tuple[TopicPartition, CommittedOffset]]:
        return list(self._by_group.get(group_id).committed_items())

    def pending(self, group_id: str) -> Collection[TopicPartition]:
        """All partitions whose offset a transaction that has not ended would change."""
        tables = [table for table in self._pending_tables(group_id) if len(table)]
        if len(tables) == 1:
            return tables[0].keys()
        return {at for table in tables for at in table}

    def has_pending(self, group_id: str) -> bool:
        return any(len(table) for table in self._pending_tables(group_id))

    def _pending_tables(self, group_id: str) -> list[TimelineDict[TopicPartition, CommittedOffset]]:
        return [self._pending.get((producer, group_id)) for producer in self._producers.get(group_id, ())]

    def count_of(self, group_id: str) -> int:
        return len(self._by_group.get(group_id))

    @property
    def count(self) -> int:
        return sum(len(table) for _, table in self._by_group.items())

    # Removal

    def tombstones_of_group(self, group_id: str) -> list[CoordinatorRecord]:
        at = dict.fromkeys(self._by_group.get(group_id))
        for table in self._pending_tables(group_id):
            at |= dict.fromkeys(table)
        return [offset_tombstone(group_id, topic, partition) for topic, partition in at]

    def tombstones_of_topics(self, topics: set[str]) -> list[CoordinatorRecord]:
        found: dict[tuple[str, str, int], None] = {}
        for group_id, table in self._by_group.items():
            found |= {(group_id, *at): None for at in table if at[0] in topics}
        for (_, group_id), table in self._pending.items():
            found |= {(group_id, *at): None for at in table if at[0] in topics}
        return [offset_tombstone(*each) for each in found]

    def expire(self, group: Group, now_ms: int, retention_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones for what is no longer to be kept, and whether the group has nothing left then.

        A classic group without members keeps its offsets for the retention time after it became empty; one that nobody
        ever joined, and one of another kind, counts from the commit. Topics subscribed to keep theirs.
        """
        table = self._by_group.get(group.id)
        if not len(table):
            return [], not self.has_pending(group.id)
        since_empty_ms = NO_TIMESTAMP
        if isinstance(group, ClassicGroup) and not group.expires_from_commit:
            if group.is_empty:
                since_empty_ms = group.phase_since_ms
            elif group.phase is not Phase.STABLE or not group.subscribed_topics:
                return [], False
        tombstones = []
        pending = self.pending(group.id)
        for (topic, partition), committed in table.items():
            since_ms = committed.commit_timestamp_ms if since_empty_ms == NO_TIMESTAMP else since_empty_ms
            due_ms = since_ms + retention_ms
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                due_ms = committed.expire_timestamp_ms
            if now_ms < due_ms or group.subscribes_to(topic) or (topic, partition) in pending:
                continue
            tombstones.append(offset_tombstone(group.id, topic, partition))
        return tombstones, len(tombstones) == len(table) and not self.has_pending(group.id)

    def prune(self) -> None:
        """Forgets the tables of groups and producers that are gone."""
        self._by_group.prune()
        self._pending.prune()
        self._producers = {}
        for producer_id, group_id in self._pending.names():
            self._producers.setdefault(group_id, set()).add(producer_id)
