"""A member of a streams group, as its records say it is: a thread of a process. Never changed in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar, NamedTuple

from barnabas.core.groups.modern import LEAVING
from barnabas.core.groups.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, tasks_of
from barnabas.wire.records import streams_groups as wire


class MemberState(IntEnum):
    """Where a member is on its way to the target assignment (see `reconciliation`); not a consumer's numbers."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """Where the application answers queries about its state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    # What is subscribed to is the topology's matter.
    topics: ClassVar[frozenset[str]] = frozenset()
    is_classic: ClassVar[bool] = False

    id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: AssignedTasks = NOTHING_ASSIGNED
    revoking: AssignedTasks = NOTHING_ASSIGNED

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def assigned_in(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch in which the member got an active task that it has or has to give back."""
        for tasks in (self.assigned.active, self.revoking.active):
            epoch = tasks.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    # Records

    def described_by(self, value: wire.StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )

    def assigned_by(self, value: wire.StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=AssignedTasks(
                _with_epochs(value.active_tasks, value.member_epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            revoking=AssignedTasks(
                _with_epochs(value.active_tasks_pending_revocation, value.member_epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_tasks(self) -> StreamsMember:
        """As the tombstone of its assignment leaves it."""
        gone = NOTHING_ASSIGNED
        return replace(self, epoch=LEAVING, previous_epoch=LEAVING, assigned=gone, revoking=gone)


def _with_epochs(
    listed: Iterable[wire.StreamsGroupCurrentMemberAssignmentTaskIds], default_epoch: int
) -> dict[str, dict[int, int]]:
    """Former versions wrote no epochs."""
    found = {}
    for each in listed:
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [default_epoch] * len(each.partitions)
        found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found
