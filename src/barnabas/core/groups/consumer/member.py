"""A member of a consumer group, as its records say it is. Never changed in place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from barnabas.core.groups.modern import Assigned
from barnabas.wire.records.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from barnabas.wire.uuids import Uuid


class MemberState(IntEnum):
    """Where a member is on its way to the target assignment (see `reconciliation`)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    # Partitions with the epoch in which the member got them; those it still has to give back are in `revoking`.
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)
    # Set if the member speaks the classic protocol.
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def assigned_in(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch in which the member got a partition that it has or has to give back."""
        for partitions in (self.assigned, self.revoking):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    # Records

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def assigned_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
            revoking=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )


def _with_epochs(listed: list[TopicPartitions], default_epoch: int) -> dict[Uuid, dict[int, int]]:
    """Former versions wrote no epochs."""
    found = {}
    for each in listed:
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [max(default_epoch, 0)] * len(each.partitions)
        found[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return found
