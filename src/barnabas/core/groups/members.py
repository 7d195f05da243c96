"""Members of all kinds of groups: who answers a request, by the kind that the group is of and the protocol spoken.

Groups that change their kind, with members (see `consumer/migration`) or without, do so here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import TimelineDict
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.classic_members import ClassicMembers
from barnabas.core.groups.consumer.decide import JOINING, Asker, ConsumerGroups
from barnabas.core.groups.consumer.embedded import Malformed
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.consumer.migration import downgraded, upgrade
from barnabas.core.groups.consumer.settings import ConsumerSettings
from barnabas.core.groups.kinds import Group, GroupsOfKind
from barnabas.core.groups.membership import Caller, Membership
from barnabas.core.groups.modern import LEAVING, LEAVING_FOR_A_WHILE, ModernGroup
from barnabas.core.groups.records import group_record, group_tombstone
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.share.decide import HeartbeatAnswer, ShareGroups, ShareSettings, ToInitialize
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import ClassicGroup, answer_join, answer_sync
from barnabas.core.groups.streams.decide import HeartbeatAnswer as StreamsAnswer
from barnabas.core.groups.streams.decide import StreamsGroups
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.uuids import Uuid


class Members:
    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timers: Timers,
        settings: Callable[[], GroupSettings],
        consumer_settings: Callable[[str], ConsumerSettings],
        clock: Callable[[], int],
        image: Callable[[], Cluster],
        new_id: Callable[[], str],
        *,
        share_settings: Callable[[str], ShareSettings] = lambda group_id: ShareSettings(),
        streams_settings: Callable[[str], StreamsSettings] = lambda group_id: StreamsSettings(),
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._clock = clock
        self._image = image
        self._consumer_groups = GroupsOfKind(groups, ConsumerGroup)
        self._classic_groups = GroupsOfKind(groups, ClassicGroup)
        self.classic = Membership(self._classic_groups, timers, settings, clock, new_id)
        self.consumer = ConsumerGroups(self._consumer_groups.get, timers, consumer_settings, clock, image, new_id)
        self.consumer.downgrade = self._downgrade
        self._share_groups = GroupsOfKind(groups, ShareGroup)
        self.share = ShareGroups(self._share_groups.get, timers, share_settings, clock, image)
        self._streams_groups = GroupsOfKind(groups, StreamsGroup)
        self.streams = StreamsGroups(self._streams_groups.get, timers, streams_settings, clock, image)
        self.mixed = ClassicMembers(self.consumer, timers, new_id)
        self.mixed.may_downgrade_with = self._may_downgrade_with
        self.mixed.downgrade_with = self._downgrade_with

    # The consumer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, asker: Asker
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return self.consumer.leave(self._require_consumer(request.group_id, group), request)
        records: list[CoordinatorRecord] = []
        if request.member_epoch != JOINING:
            group = self._require_consumer(request.group_id, group)
        elif isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._upgrade_and_join(group, request, asker)
            records.append(group_tombstone(group.id))
            self._forget_classic(group)
            group = None
        elif group is not None:
            group = self._require_consumer(request.group_id, group)
        return self.consumer.heartbeat(request, asker, group, records)

    def _require_consumer(self, group_id: str, group: Group | None) -> ConsumerGroup:
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def _upgrade_and_join(
        self, classic: ClassicGroup, request: ConsumerGroupHeartbeatRequest, asker: Asker
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        group, records = upgrade(classic, self.consumer.settings(classic.id), self._image())
        decision = self.consumer.heartbeat(request, asker, group, records)
        # Whoever waits joins again, and finds a consumer group.
        for member in classic.members.values():
            code = ErrorCode.REBALANCE_IN_PROGRESS
            answer_join(member, JoinGroupResponse(member_id=member.id, error_code=code))
            answer_sync(member, SyncGroupResponse(error_code=code))
        self._timers.cancel(("join", classic.id))
        self._timers.cancel(("sync", classic.id))
        for member in classic.members.values():
            self.consumer.expect(classic.id, member.id, member.session_timeout_ms)

        def decided(error: KafkaError | None) -> None:
            if error is not None:
                # The group is a classic one as before; its members are told to join again.
                self._restart(classic)

        return Decision(decision.records, decision.response, decided)

    def _restart(self, classic: ClassicGroup) -> None:
        for member in classic.members.values():
            self.classic.rebalance.expect(classic, member.id, member.session_timeout_ms)
        self.classic.rebalance.begin(classic)

    def _forget_classic(self, classic: ClassicGroup) -> None:
        for member_id in classic.pending:
            self._timers.cancel(("session", classic.id, member_id))

    # Share groups

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> Decision[HeartbeatAnswer]:
        group = self._groups.get(request.group_id)
        if request.member_epoch == LEAVING:
            return self.share.leave(self.require_share(request.group_id), request.member_id)
        share_group = None if group is None else self.require_share(request.group_id)
        return self.share.heartbeat(request, client_id, client_host, share_group)

    def require_share(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            said = f"Share group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, said)
        return group

    def alter_share_offsets(self, group_id: str, offsets: Mapping[tuple[Uuid, int], int]) -> Decision[ToInitialize]:
        group = None if self._groups.get(group_id) is None else self.require_share(group_id)
        return self.share.alter_offsets(group_id, group, offsets)

    def begin_deletion(self, group_id: str, topics: Collection[Uuid] | None) -> Decision[dict[Uuid, frozenset[int]]]:
        """Of the states of a share group without members, of some topics or of all."""
        group = self.require_share(group_id)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return self.share.begin_deletion(group, topics)

    # Streams groups

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> Decision[StreamsAnswer]:
        group = self._groups.get(request.group_id)
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return self.streams.leave(_require_streams(request.group_id, group, "Group"), request)
        records: list[CoordinatorRecord] = []
        if request.member_epoch == JOINING and isinstance(group, ClassicGroup) and group.is_empty:
            records.append(group_tombstone(group.id))
            self._forget_classic(group)
            group = None
        elif request.member_epoch != JOINING or group is not None:
            group = _require_streams(request.group_id, group, "Streams group")
        return self.streams.heartbeat(request, client_id, client_host, group, records)

    # The classic protocol

    def join(self, request: JoinGroupRequest, caller: Caller) -> Decision[JoinGroupResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group is None or isinstance(group, ClassicGroup):
            return self.classic.join(request, caller)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.mixed.join(group, request, caller)
        if request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.streams.forget(group.id)
        return self.classic.join(request, caller, group.tombstones())

    def sync(self, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.mixed.sync(group, request)
        return self.classic.sync(request)

    def heartbeat(self, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.mixed.heartbeat(group, request)
        return self.classic.heartbeat(request)

    def leave(self, request: LeaveGroupRequest) -> Decision[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.mixed.leave(group, request)
        return self.classic.leave(request)

    # Back to a classic group

    def _downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> list[CoordinatorRecord] | None:
        gone = {member.id for member in leaving}
        stay = [member for member in group.members.values() if member.id not in gone]
        if not stay or not all(member.is_classic for member in stay) or not self._may_downgrade(group, len(stay)):
            return None
        records = self._to_classic(group, leaving, None, rebalances=True)
        if records is not None:
            for member in leaving:
                self.consumer.cancel(group.id, member.id)
        return records

    def _may_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        policy = self.consumer.settings(group.id).migration_policy
        return policy.allows_downgrade and size <= self._settings().max_size

    def _may_downgrade_with(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        others = [member for member in group.members.values() if member.id != replaced.id]
        if replaced.is_classic or not all(member.is_classic for member in others):
            return False
        return self._may_downgrade(group, len(group.members))

    def _downgrade_with(
        self, group: ConsumerGroup, joining: ConsumerMember, rebalances: bool
    ) -> list[CoordinatorRecord]:
        records = self._to_classic(group, [], joining, rebalances=rebalances)
        if records is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the consumer group {group.id}.")
        return records

    def _to_classic(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        *,
        rebalances: bool,
    ) -> list[CoordinatorRecord] | None:
        try:
            classic = downgraded(group, leaving, joining, self._image(), self._clock(), rebalances=rebalances)
        except Malformed:
            return None
        assignment = {each.id: each.assignment for each in classic.members.values()}
        tombstones = group.tombstones()
        replaced = group.static_member(joining.instance_id) if joining is not None else None
        if joining is not None and replaced is not None and joining.id not in group.members:
            # The replaced member's own tombstones come before; the new one's records are to go as well.
            tombstones = group.tombstones(renamed={replaced.id: joining.id})
        self.classic.created[group.id] = classic
        for member in classic.members.values():
            self.consumer.cancel(group.id, member.id)
            self.classic.rebalance.expect(classic, member.id, member.session_timeout_ms)
        if rebalances:
            self.classic.rebalance.begin(classic)
        return [*tombstones, group_record(classic, assignment)]

    # Beginning, and what happens around

    def loaded(self) -> list[CoordinatorRecord]:
        self.consumer.loaded(self._consumer_groups.values())
        self.share.loaded(self._share_groups.values())
        self.streams.loaded(self._streams_groups.values())
        return self.classic.loaded()

    def topics_changed(self, topics: Collection[str], *, created: bool) -> None:
        if created:
            self.consumer.regexes.new_topics_version = self._image().offset
        for group in self._groups.values():
            if isinstance(group, ModernGroup) and any(topic in group.topics for topic in topics):
                group.request_refresh()


def _require_streams(group_id: str, group: Group | None, called: str) -> StreamsGroup:
    """`called` is how Kafka calls a group here that is not there."""
    if isinstance(group, StreamsGroup):
        return group
    said = f"{called} {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, said)
