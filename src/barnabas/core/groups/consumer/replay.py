"""A record of a consumer group, replayed into the group that it belongs to."""

from __future__ import annotations

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.wire.records import consumer_groups as wire


def replay_into(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    """The tombstone of the group itself, which removes it, is the shard's matter."""
    key, value = record.key, record.value
    if isinstance(key, wire.ConsumerGroupMetadataKey):
        if isinstance(value, wire.ConsumerGroupMetadataValue):
            group.replay_epoch(value)
    elif isinstance(key, wire.ConsumerGroupMemberMetadataKey):
        assert value is None or isinstance(value, wire.ConsumerGroupMemberMetadataValue)
        group.replay_member(key.member_id, value)
    elif isinstance(key, wire.ConsumerGroupCurrentMemberAssignmentKey):
        assert value is None or isinstance(value, wire.ConsumerGroupCurrentMemberAssignmentValue)
        group.replay_current(key.member_id, value)
    elif isinstance(key, wire.ConsumerGroupTargetAssignmentMemberKey):
        assert value is None or isinstance(value, wire.ConsumerGroupTargetAssignmentMemberValue)
        group.replay_target(key.member_id, value)
    elif isinstance(key, wire.ConsumerGroupTargetAssignmentMetadataKey):
        assert value is None or isinstance(value, wire.ConsumerGroupTargetAssignmentMetadataValue)
        group.replay_target_epoch(value)
    elif isinstance(key, wire.ConsumerGroupRegularExpressionKey):
        assert value is None or isinstance(value, wire.ConsumerGroupRegularExpressionValue)
        group.replay_regex(key.regular_expression, value)
    elif isinstance(key, wire.ConsumerGroupPartitionMetadataKey):
        group.replay_partition_metadata(value is not None)
