"""A group changes its protocol while its members go on.

Upgrade: the first member of the consumer protocol that joins a classic group makes a consumer group of it. Members that
still speak the classic protocol stay, with what they have; their generation is the member's epoch from then on.
Downgrade: when the last member of the consumer protocol leaves, what is left becomes a classic group, which rebalances.
Both are tombstones of the one and records of the other in one decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.embedded import (
    Malformed,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from barnabas.core.groups.consumer.replay import replay_into
from barnabas.core.groups.consumer.settings import ConsumerSettings
from barnabas.core.groups.modern import Target
from barnabas.core.groups.records import group_tombstone
from barnabas.core.groups.state import CONSUMER_PROTOCOL, ClassicGroup, Member, Phase
from barnabas.core.groups.topic_hashes import group_hash
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from barnabas.wire.uuids import Uuid


def upgrade(
    classic: ClassicGroup, settings: ConsumerSettings, image: Cluster
) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """The group that the records will make, to go on with, and the records."""
    _check_upgrade(classic, settings)
    try:
        members = [_upgraded(classic, member, image) for member in classic.members.values()]
    except Malformed as error:
        raise _no_upgrade(classic, "the embedded consumer protocol is malformed") from error
    epoch = classic.generation_id
    topics = {topic for member, _ in members for topic in member.topics}
    records = [
        *(member_record(classic.id, member) for member, _ in members),
        epoch_record(classic.id, epoch, group_hash(topics, image)),
        *(target_record(classic.id, member.id, target) for member, target in members),
        target_epoch_record(classic.id, epoch, 0),
        *(current_record(classic.id, member) for member, _ in members),
    ]
    group = ConsumerGroup(classic.id, Timeline())
    for record in records:
        replay_into(group, record)
    return group, [group_tombstone(classic.id), *records]


def _check_upgrade(classic: ClassicGroup, settings: ConsumerSettings) -> None:
    if not settings.migration_policy.allows_upgrade:
        raise _no_upgrade(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL or classic.protocol_name is None:
        raise _no_upgrade(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > settings.max_size:
        raise _no_upgrade(classic, "the group size exceeds the consumer group maximum size")


def _no_upgrade(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {classic.id} to consumer group because {why}."
    )


def _upgraded(classic: ClassicGroup, member: Member, image: Cluster) -> tuple[ConsumerMember, Target]:
    target: dict[Uuid, frozenset[int]] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _no_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
                " assignor before re-attempting the upgrade",
            )
        for each in assignment.assigned_partitions:
            topic = image.topics.get(each.topic)
            if topic is not None:
                target[topic.topic_id] = frozenset(each.partitions)
    subscription = read_subscription(member.metadata(classic.protocol_name or ""))
    epoch = classic.generation_id
    upgraded = ConsumerMember(
        id=member.id,
        epoch=epoch,
        previous_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in target.items()},
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols],
        ),
    )
    return upgraded, target


def downgraded(
    group: ConsumerGroup,
    leaving: Sequence[ConsumerMember],
    joining: ConsumerMember | None,
    image: Cluster,
    now_ms: int,
    *,
    rebalances: bool,
) -> ClassicGroup:
    """What is left as a classic group, stable; `joining` takes the place of its instance.

    A group that is about to rebalance keeps what its members hold, where Apache Kafka's keeps their targets: should it
    be upgraded again before they have joined, what they have not given back yet is nobody else's."""
    gone = {member.id for member in leaving}
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    if replaced is not None:
        gone.add(replaced.id)
    stay = [member for member in group.members.values() if member.id not in gone]
    classic = ClassicGroup(group.id, now_ms)
    classic.generation_id = group.epochs.group
    classic.protocol_type = CONSUMER_PROTOCOL
    for member in [*stay, *([joining] if joining is not None else [])]:
        classic.restore(_classic_member(member))
    classic.phase = Phase.STABLE
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.read_subscriptions()
    for each in classic.members.values():
        former = replaced.id if replaced is not None and joining is not None and each.id == joining.id else each.id
        version = version_of(each.metadata(classic.protocol_name))
        target = _held(group.members.get(former)) if rebalances else group.target(former)
        each.assignment = write_assignment(target, version, image)
    return classic


def _held(member: ConsumerMember | None) -> Target:
    if member is None:
        return {}
    topics = dict.fromkeys([*member.assigned, *member.revoking])
    parts = (member.assigned, member.revoking)
    return {topic_id: frozenset().union(*(each.get(topic_id, ()) for each in parts)) for topic_id in topics}


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None
    found = Member(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple((each.name, bytes(each.metadata)) for each in member.classic.supported_protocols),
    )
    found.is_new = False
    return found
