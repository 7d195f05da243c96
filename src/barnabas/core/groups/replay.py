"""Records of groups whose coordinator assigns: the group comes with its first record and goes with its last tombstone.

A group that only has offsets gives way. After compaction records of a former kind may be left behind those of the kind
that the group has become; tombstones of a kind that the group is not are of no consequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.core.coordinator.records import CoordinatorRecord, Kinds
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.records import KINDS as CONSUMER_KINDS
from barnabas.core.groups.consumer.replay import replay_into
from barnabas.core.groups.kinds import Group
from barnabas.core.groups.share.group import KINDS as SHARE_KINDS
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import ClassicGroup
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.core.groups.streams.records import KINDS as STREAMS_KINDS
from barnabas.wire.records.consumer_groups import ConsumerGroupMetadataKey
from barnabas.wire.records.share_groups import ShareGroupMetadataKey
from barnabas.wire.records.streams_groups import StreamsGroupMetadataKey
from barnabas.wire.schema import Record


class Modern(NamedTuple):
    """One kind of group: its records, its class, the key of the record that it goes with, and its replay."""

    kinds: Kinds
    group: type[ConsumerGroup | ShareGroup | StreamsGroup]
    key: type[Record]
    replay: Callable[[Any, CoordinatorRecord], None]


MODERN = (
    Modern(CONSUMER_KINDS, ConsumerGroup, ConsumerGroupMetadataKey, replay_into),
    Modern(SHARE_KINDS, ShareGroup, ShareGroupMetadataKey, ShareGroup.replay),
    Modern(STREAMS_KINDS, StreamsGroup, StreamsGroupMetadataKey, StreamsGroup.replay),
)
_BY_API_KEY = {api_key: each for each in MODERN for api_key in each.kinds}


def replay_modern(groups: TimelineDict[str, Group], timeline: Timeline, record: CoordinatorRecord) -> None:
    modern = _BY_API_KEY.get(record.key.api_key)
    if modern is None:
        return
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, modern.group):
        if record.value is None:
            return
        if isinstance(group, ClassicGroup) and not _is_simple(group):
            raise ValueError(f"the group {group_id} is not a {modern.group.type.value} group")
        group = groups[group_id] = modern.group(group_id, timeline)
    if isinstance(record.key, modern.key) and record.value is None:
        groups.pop(group_id)
    else:
        modern.replay(group, record)


def _is_simple(group: ClassicGroup) -> bool:
    return group.is_empty and group.protocol_type is None and not group.pending
