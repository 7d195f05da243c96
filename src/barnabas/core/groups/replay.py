"""Records of groups whose coordinator assigns: the group comes with its first record and goes with its last tombstone.

A group that only has offsets gives way. After compaction records of a former kind may be left behind those of the kind
that the group has become; tombstones of a kind that the group is not are of no consequence.
"""

from __future__ import annotations

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.records import KINDS as CONSUMER_KINDS
from barnabas.core.groups.consumer.replay import replay_into
from barnabas.core.groups.kinds import Group
from barnabas.core.groups.share.group import KINDS as SHARE_KINDS
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import ClassicGroup
from barnabas.wire.records.consumer_groups import ConsumerGroupMetadataKey
from barnabas.wire.records.share_groups import ShareGroupMetadataKey


def replay_modern(groups: TimelineDict[str, Group], timeline: Timeline, record: CoordinatorRecord) -> None:
    if record.key.api_key in CONSUMER_KINDS:
        _replay_consumer(groups, timeline, record)
    elif record.key.api_key in SHARE_KINDS:
        _replay_share(groups, timeline, record)


def _replay_share(groups: TimelineDict[str, Group], timeline: Timeline, record: CoordinatorRecord) -> None:
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        if record.value is None:
            return
        if isinstance(group, ClassicGroup) and not _is_simple(group):
            raise ValueError(f"the group {group_id} is not a share group")
        group = groups[group_id] = ShareGroup(group_id, timeline)
    if isinstance(record.key, ShareGroupMetadataKey) and record.value is None:
        groups.pop(group_id)
    else:
        group.replay(record)


def _replay_consumer(groups: TimelineDict[str, Group], timeline: Timeline, record: CoordinatorRecord) -> None:
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return
        if isinstance(group, ClassicGroup) and not _is_simple(group):
            raise ValueError(f"the group {group_id} is not a consumer group")
        group = groups[group_id] = ConsumerGroup(group_id, timeline)
    if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
        groups.pop(group_id)
    else:
        replay_into(group, record)


def _is_simple(group: ClassicGroup) -> bool:
    return group.is_empty and group.protocol_type is None and not group.pending
