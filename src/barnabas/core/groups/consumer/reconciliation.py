"""A member's way from what it has to what it should have.

    STABLE                 The member has its target. If the target's epoch is ahead it begins to move.
    UNREVOKED_PARTITIONS   It has to give partitions back, and stays in its epoch until it reports that it no longer
                           owns them. If it does not within the rebalance timeout, it is removed.
    UNRELEASED_PARTITIONS  It is in the target's epoch, and waits for partitions that others have not given back yet.

A partition is thus never owned by two members: it is handed out only when nobody has it in any epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.modern import Assigned, Target
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

# What a member says it owns; None if it says nothing, which is: as before.
Owned = Mapping[Uuid, Collection[int]] | None
NOTHING: Mapping[int, int] = {}


class Reconciliation:
    def __init__(
        self,
        member: ConsumerMember,
        target: Target,
        target_epoch: int,
        subscribed: Collection[Uuid],
        owned: Owned,
        is_held: Callable[[Uuid, int], bool],
    ) -> None:
        """`is_held` says whether any member has a partition, or has to give it back."""
        self._member = member
        self._target = target
        self._target_epoch = target_epoch
        self._subscribed = subscribed
        self._owned = owned
        self._is_held = is_held

    def step(self, *, subscription_changed: bool) -> ConsumerMember:
        member = self._member
        if member.state is MemberState.STABLE:
            if member.epoch != self._target_epoch:
                return self._move(member.epoch)
            return self._drop_unsubscribed() if subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if self._still_owns(member.revoking):
                return self._drop_unsubscribed() if subscription_changed else member
            return self._move(member.epoch)
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._move(member.epoch)
        if self._owned is None or self._owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state."
                " The member must abandon all its partitions and rejoin.",
            )
        return self._move(self._target_epoch)

    def _still_owns(self, revoking: Assigned) -> bool:
        if self._owned is None:
            return True
        return any(
            partition in revoking.get(topic_id, NOTHING)
            for topic_id, partitions in self._owned.items()
            for partition in partitions
        )

    def _drop_unsubscribed(self) -> ConsumerMember:
        """Within the epoch: what the member no longer subscribes to is to be given back."""
        member = self._member
        dropped = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in self._subscribed}
        if not dropped:
            return member
        assigned = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in dropped}
        revoking = dict(member.revoking)
        for topic_id, partitions in dropped.items():
            revoking[topic_id] = {**revoking.get(topic_id, NOTHING), **partitions}
        moved = replace(member, previous_epoch=member.epoch, assigned=assigned)
        if self._still_owns(revoking):
            return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return moved

    def _move(self, epoch: int) -> ConsumerMember:
        member = self._member
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoking: dict[Uuid, Mapping[int, int]] = {}
        pending: dict[Uuid, list[int]] = {}
        waits = False
        for topic_id in dict.fromkeys([*self._target, *member.assigned]):
            wanted = self._target.get(topic_id, frozenset()) if topic_id in self._subscribed else frozenset()
            current = member.assigned.get(topic_id, NOTHING)
            keep = {partition: since for partition, since in current.items() if partition in wanted}
            give_back = {partition: since for partition, since in current.items() if partition not in wanted}
            own_revoking = member.revoking.get(topic_id, NOTHING)
            free = [
                partition
                for partition in sorted(wanted)
                if partition not in keep and (partition in own_revoking or not self._is_held(topic_id, partition))
            ]
            waits = waits or len(keep) + len(free) < len(wanted)
            if keep:
                kept[topic_id] = keep
            if give_back:
                revoking[topic_id] = give_back
            if free:
                pending[topic_id] = free
        if revoking and self._still_owns(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        for topic_id, partitions in pending.items():
            kept[topic_id] = {**kept.get(topic_id, NOTHING), **dict.fromkeys(partitions, self._target_epoch)}
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            epoch=self._target_epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking={},
        )
