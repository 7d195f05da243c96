"""Members of a consumer group that speak the classic protocol, while a group migrates.

Such a member joins without waiting for others: its generation is its member epoch, and it alone is told to join again
when its target has moved on. It has to fetch its assignment within its rebalance timeout, and to join again within it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.consumer.decide import ConsumerGroups, last_target, require_instance
from barnabas.core.groups.consumer.embedded import Malformed, read_subscription, version_of, write_assignment
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.consumer.reconciliation import Owned
from barnabas.core.groups.consumer.settings import MigrationPolicy
from barnabas.core.groups.membership import Caller
from barnabas.core.groups.state import CONSUMER_PROTOCOL
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from barnabas.wire.records.consumer_protocol import ConsumerProtocolSubscription

# Makes a classic group with a joining static member, and says whether it rebalances; None if it may not.
DowngradeWith = Callable[[ConsumerGroup, ConsumerMember, bool], "list[CoordinatorRecord]"]


class ClassicMembers:
    def __init__(self, groups: ConsumerGroups, timers: Timers, new_id: Callable[[], str]) -> None:
        self._groups = groups
        self._timers = timers
        self._new_id = new_id
        # Set by the shard: whether a group may become classic if a static member is replaced, and how.
        self.may_downgrade_with: Callable[[ConsumerGroup, ConsumerMember], bool] = lambda group, replaced: False
        self.downgrade_with: DowngradeWith = lambda group, joining, rebalances: []

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller) -> Decision[JoinGroupResponse]:
        settings = self._groups.settings(group.id)
        if settings.migration_policy is MigrationPolicy.DISABLED:
            raise _inconsistent(f"Cannot join the consumer group {group.id}: the group migration is disabled.")
        is_unknown = not request.member_id
        member_id = request.member_id or self._new_id()
        if len(group.members) >= settings.max_size and member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        _check_protocols(group, request)
        instance_id = request.group_instance_id
        if is_unknown and instance_id is None and caller.must_know_its_id:
            return Decision([], JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
        subscription = _subscription(request)
        records: list[CoordinatorRecord] = []
        static = group.static_member(instance_id)
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(id=member_id)
        elif is_unknown:
            member = self._groups.replace_static(group, member_id, instance_id, static, records, speaks_classic=True)
        else:
            member = require_instance(static, member_id, instance_id)
        updated = _updated(member, request, caller, subscription)
        downgrades = static is not None and self.may_downgrade_with(group, static)
        owned = self._owned(subscription)
        change = self._groups.describe_change(group, member, updated, owned, lambda topic: True, records)
        if is_unknown:
            self._groups.succeed(group, instance_id)
        if downgrades:
            epoch = self._groups.next_epoch(group, change, records)
            rebalances = group.epochs.assignment < epoch
            if not rebalances:
                target = last_target(group, updated)
                updated = self._groups.reconcile(group, change, group.epochs.assignment, target, records)
            records += self.downgrade_with(group, updated, rebalances)
        else:
            updated = self._groups.advance(group, change, records)
        response = JoinGroupResponse(
            member_id=updated.id,
            generation_id=updated.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=_protocol_name(updated),
        )

        def decided(error: KafkaError | None) -> None:
            if error is None:
                self._timers.cancel(("join", group.id, updated.id))
                if not downgrades:
                    self._groups.expect(group.id, updated.id, request.session_timeout_ms)
                    self._time("sync", group.id, updated.id, request.rebalance_timeout_ms)
            elif static is not None:
                self._groups.restore(group.id)

        return Decision(records, response, decided)

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Owned:
        topics = self._groups.image().topics
        return {
            topics[each.topic].topic_id: each.partitions
            for each in subscription.owned_partitions
            if each.topic in topics
        }

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        for said, known in (
            (request.protocol_type, CONSUMER_PROTOCOL),
            (request.protocol_name, _protocol_name(member)),
        ):
            if said is not None and said != known:
                raise _inconsistent(f"The protocol {said} of member {member.id} is not {known}.")
        if group.epochs.assignment > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        assert member.classic is not None
        self._timers.cancel(("sync", group.id, member.id))
        self._groups.expect(group.id, member.id, member.classic.session_timeout_ms)
        version = version_of(member.classic.supported_protocols[0].metadata)
        return Decision(
            [],
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, version, self._groups.image()),
            ),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        self._groups.expect(group.id, member.id, member.classic.session_timeout_ms)
        waits = member.state is MemberState.UNRELEASED_PARTITIONS
        if (
            member.epoch < group.epochs.assignment
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (waits and not group.waits_for_others(member))
        ):
            self._expect_join(group, member)
            return Decision([], HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Decision([], HeartbeatResponse())

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> Decision[LeaveGroupResponse]:
        answers: list[MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for each in request.members:
            answer = MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id)
            try:
                member = _leaving(group, each)
                leaving[member.id] = member
            except KafkaError as error:
                answer.error_code = error.code
            answers.append(answer)
        return self._groups.remove(group, list(leaving.values()), LeaveGroupResponse(members=answers))

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = require_instance(group.static_member(instance_id), member_id, instance_id)
        if not member.is_classic:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.id} does not use the classic protocol.")
        if member.epoch != generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if not self._timers.is_scheduled(("join", group.id, member.id)):
            self._time("join", group.id, member.id, member.rebalance_timeout_ms)

    def _time(self, kind: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        due = partial(self._groups.give_up, group_id, member_id)
        self._timers.schedule((kind, group_id, member_id), timeout_ms, due)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(identity.group_instance_id)
    # An administrator removes a static member by its name alone.
    known_id = identity.member_id or (member.id if member is not None else "")
    return require_instance(member, known_id, identity.group_instance_id)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    names = {each.name for each in request.protocols}
    for member in group.members.values():
        if member.classic is not None:
            names &= {each.name for each in member.classic.supported_protocols}
    if request.protocol_type != CONSUMER_PROTOCOL or not names:
        raise _inconsistent("The member's protocols are not supported.")


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except Malformed as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Malformed subscription: {error}") from error


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, caller: Caller, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=each.name, metadata=bytes(each.metadata)) for each in request.protocols
            ],
        ),
    )


def _protocol_name(member: ConsumerMember) -> str:
    assert member.classic is not None
    return member.classic.supported_protocols[0].name


def _inconsistent(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
