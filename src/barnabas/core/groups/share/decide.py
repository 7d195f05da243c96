"""Heartbeats of a share group: joining, staying and leaving; and the states of its partitions.

A topic that a member subscribes to is first noted as being initialized. The shell then asks the share coordinator for
each of its partitions, and tells what came of it (`initialized`). The next heartbeat assigns what has become ready.
Which partitions each member gets is `spread`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.modern import LEAVING, Target
from barnabas.core.groups.share.group import (
    Initialized,
    ShareGroup,
    ShareMember,
    current_record,
    epoch_record,
    member_record,
    states_record,
    target_epoch_record,
    target_record,
)
from barnabas.core.groups.share.spread import spread
from barnabas.core.groups.topic_hashes import group_hash
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.wire.records import share_groups as wire
from barnabas.wire.uuids import Uuid

JOINING = 0
RETRY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 200
    initialize_retry_ms: int = 30_000


class ToInitialize(NamedTuple):
    """What the share coordinator is to be asked for: partitions by topic, in an epoch of the group."""

    group_id: str
    epoch: int
    partitions: Mapping[Uuid, frozenset[int]]
    start_offsets: Mapping[tuple[Uuid, int], int] = {}


class HeartbeatAnswer(NamedTuple):
    response: ShareGroupHeartbeatResponse
    to_initialize: ToInitialize | None = None


class ShareGroups:
    def __init__(
        self,
        find: Callable[[str], ShareGroup | None],
        timers: Timers,
        settings: Callable[[str], ShareSettings],
        clock: Callable[[], int],
        cluster: Callable[[], Cluster],
    ) -> None:
        self._find = find
        self._timers = timers
        self.settings = settings
        self._clock = clock
        self._cluster = cluster

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str, group: ShareGroup | None
    ) -> Decision[HeartbeatAnswer]:
        joins = request.member_epoch == JOINING
        if group is None:
            if not joins:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
            group = ShareGroup(request.group_id, Timeline())
        settings, member_id = self.settings(group.id), request.member_id
        if len(group.members) >= settings.max_size and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {settings.max_size} members.",
            )
        known = group.members.get(member_id)
        member = known or (ShareMember(id=member_id) if joins else group.member(member_id))
        _check_epoch(member, request.member_epoch)
        names = request.subscribed_topic_names
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            topics=member.topics if names is None else frozenset(names),
            client_id=client_id,
            client_host=client_host,
        )
        records: list[CoordinatorRecord] = []
        if updated != member:
            records.append(member_record(group.id, updated))
        topics = _topics_after(group, member, updated)
        epoch, bumped = self._next_epoch(group, member, updated, topics, records)
        target_epoch, target = self._next_target(group, epoch, updated, records)
        updated = self._follow(group, updated, target_epoch, target, bumped, records)
        self.expect(group.id, member_id, settings.session_timeout_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id, member_epoch=updated.epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
        )
        if joins or names is not None or updated.assigned != member.assigned:
            response.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=sorted(each))
                    for topic_id, each in updated.assigned.items()
                ]
            )
        return Decision(records, HeartbeatAnswer(response, self._to_initialize(group, epoch, topics, records)))

    def _next_epoch(
        self,
        group: ShareGroup,
        member: ShareMember,
        updated: ShareMember,
        topics: set[str],
        records: list[CoordinatorRecord],
    ) -> tuple[int, bool]:
        epochs = group.epochs
        bumps = member.topics != updated.topics
        if epochs.assignment >= epochs.group:
            bumps = bumps or _waits_to_be_assigned(group)
        if not bumps and not group.needs_refresh:
            return epochs.group, False
        metadata_hash = group_hash(topics, self._cluster())
        bumps = bumps or metadata_hash != epochs.metadata_hash
        epoch = epochs.group + bumps
        if bumps:
            records.append(epoch_record(group.id, epoch, metadata_hash))
        group.refreshed(epoch)
        return epoch, bumps

    def _next_target(
        self, group: ShareGroup, epoch: int, member: ShareMember, records: list[CoordinatorRecord]
    ) -> tuple[int, Target]:
        epochs, now_ms = group.epochs, self._clock()
        interval_ms = self.settings(group.id).assignment_interval_ms
        too_soon = epochs.assigned_ms and now_ms < epochs.assigned_ms + interval_ms
        if epochs.assignment >= epoch or too_soon:
            return epochs.assignment, group.targets.get(member.id) or {}
        members = {each.id: each for each in group.members.values()} | {member.id: member}
        subscribed = {each.id: group.subscribed_ids(each, self._cluster()) for each in members.values()}
        ready = {topic_id: partitions for topic_id, (_, partitions) in group.states.initialized.items()}
        targets = spread(subscribed, ready, {each: group.targets.get(each) or {} for each in members})
        for member_id, target in targets.items():
            if target != group.targets.get(member_id):
                records.append(target_record(group.id, member_id, target))
        records.append(target_epoch_record(group.id, epoch, now_ms))
        return epoch, targets[member.id]

    def _follow(
        self,
        group: ShareGroup,
        member: ShareMember,
        target_epoch: int,
        target: Target,
        bumped: bool,
        records: list[CoordinatorRecord],
    ) -> ShareMember:
        if not bumped and member.is_reconciled_to(target_epoch):
            return member
        subscribed = group.subscribed_ids(member, self._cluster())
        assigned = {topic_id: each for topic_id, each in target.items() if topic_id in subscribed}
        updated = replace(member, assigned=assigned)
        if member.epoch != target_epoch:
            updated = replace(updated, epoch=target_epoch, previous_epoch=member.epoch)
        if updated != member:
            records.append(current_record(group.id, updated))
        return updated

    # States of partitions

    def _to_initialize(
        self, group: ShareGroup, epoch: int, topics: Iterable[str], records: list[CoordinatorRecord]
    ) -> ToInitialize | None:
        states, now_ms, cluster = group.states, self._clock(), self._cluster()
        retry_ms = self.settings(group.id).initialize_retry_ms
        missing: dict[Uuid, tuple[str, frozenset[int]]] = {}
        for name in topics:
            topic = cluster.topics.get(name)
            if topic is None:
                continue
            known = states.initialized.get(topic.topic_id, (name, frozenset()))[1]
            if now_ms - group.initializing_since_ms.get(topic.topic_id, -retry_ms) < retry_ms:
                known |= states.initializing.get(topic.topic_id, (name, frozenset()))[1]
            wanted = frozenset(range(len(topic.partitions))) - known
            if wanted:
                missing[topic.topic_id] = (name, wanted)
        if not missing:
            return None
        records.append(states_record(group.id, _initializing(states, missing)))
        return ToInitialize(group.id, epoch, {topic_id: each for topic_id, (_, each) in missing.items()})

    def began_to_initialize(self, group_id: str, topics: Iterable[Uuid]) -> None:
        """The request is on its way."""
        group = self._find(group_id)
        if group is not None:
            group.initializing_since_ms |= dict.fromkeys(topics, self._clock())

    def failed_to_initialize(self, group_id: str, topics: Iterable[Uuid]) -> None:
        """The next heartbeat asks again."""
        group = self._find(group_id)
        for topic_id in topics if group is not None else ():
            group.initializing_since_ms.pop(topic_id, None)  # type: ignore[union-attr]

    def is_initializing(self, group_id: str, topic_id: Uuid, partition: int) -> bool:
        group = self._find(group_id)
        named = group.states.initializing.get(topic_id) if group is not None else None
        return named is not None and partition in named[1]

    def initialized(self, group_id: str, partitions: Mapping[Uuid, frozenset[int]]) -> Decision[None]:
        group = self._find(group_id)
        if group is None or not partitions:
            return Decision([], None)
        states, names = group.states, self._cluster().topic_names
        initializing, initialized = dict(states.initializing), dict(states.initialized)
        for topic_id, ready in partitions.items():
            name, before = initialized.get(topic_id, (names.get(topic_id, "<UNKNOWN>"), frozenset()))
            initialized[topic_id] = (name, before | ready)
            left = initializing.get(topic_id, (name, frozenset()))[1] - ready
            if left:
                initializing[topic_id] = (name, left)
            else:
                initializing.pop(topic_id, None)
        return Decision([states_record(group_id, Initialized(initializing, initialized, states.deleting))], None)

    def alter_offsets(
        self, group_id: str, group: ShareGroup | None, offsets: Mapping[tuple[Uuid, int], int]
    ) -> Decision[ToInitialize]:
        """Where the group begins anew; it must have no members."""
        states, epoch = Initialized(), 0
        records: list[CoordinatorRecord] = []
        if group is None:
            group = ShareGroup(group_id, Timeline())
        elif not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        states, epoch = group.states, group.epochs.group
        names = self._cluster().topic_names
        wanted: dict[Uuid, frozenset[int]] = {}
        for topic_id, partition in offsets:
            wanted[topic_id] = wanted.get(topic_id, frozenset()) | {partition}
        named = {topic_id: (names.get(topic_id, ""), each) for topic_id, each in wanted.items()}
        if named:
            records.append(states_record(group_id, _initializing(states, named)))
        return Decision(records, ToInitialize(group_id, epoch, wanted, offsets))

    def begin_deletion(
        self, group: ShareGroup, topics: Collection[Uuid] | None
    ) -> Decision[dict[Uuid, frozenset[int]]]:
        """The partitions whose states are to be deleted, of some topics or of all.

        With them those of a deletion that did not come to its end: what is left of a state would refuse a later group
        of the same name, whose epochs are smaller."""
        states, cluster = group.states, self._cluster()
        tables = (states.initializing, states.initialized)
        known = {topic_id: name for table in tables for topic_id, (name, _) in table.items()}
        gone: dict[Uuid, frozenset[int]] = {}
        for topic_id in dict.fromkeys([*known, *states.deleting]):
            if topics is None or topic_id in topics:
                partitions = frozenset[int]().union(*(table[topic_id][1] for table in tables if topic_id in table))
                topic = cluster.topics.get(states.deleting.get(topic_id, ""))
                if topic is not None and topic.topic_id == topic_id:
                    partitions |= frozenset(topic.partitions)
                if partitions:
                    gone[topic_id] = partitions
        if not gone:
            return Decision([], {})
        left = Initialized(
            {key: each for key, each in states.initializing.items() if key not in gone},
            {key: each for key, each in states.initialized.items() if key not in gone},
            {**states.deleting, **{key: name for key, name in known.items() if key in gone}},
        )
        return Decision([states_record(group.id, left)] if left != states else [], gone)

    def deleted(self, group_id: str, topics: Iterable[Uuid]) -> Decision[None]:
        group = self._find(group_id)
        if group is None:
            return Decision([], None)
        gone = set(topics)
        deleting = {key: name for key, name in group.states.deleting.items() if key not in gone}
        return Decision([states_record(group_id, group.states._replace(deleting=deleting))], None)

    # Leaving

    def leave(self, group: ShareGroup, member_id: str) -> Decision[HeartbeatAnswer]:
        response = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVING)
        removal = self._remove(group, group.member(member_id))
        return Decision(removal.records, HeartbeatAnswer(response), removal.decided)

    def _remove(self, group: ShareGroup, member: ShareMember) -> Decision[None]:
        names = {"group_id": group.id, "member_id": member.id}
        metadata_hash = group_hash(_topics_after(group, member, None), self._cluster())
        self._timers.cancel(("session", group.id, member.id))
        records = [
            CoordinatorRecord(wire.ShareGroupCurrentMemberAssignmentKey(**names), None),
            CoordinatorRecord(wire.ShareGroupTargetAssignmentMemberKey(**names), None),
            CoordinatorRecord(wire.ShareGroupMemberMetadataKey(**names), None),
            epoch_record(group.id, group.epochs.group + 1, metadata_hash),
        ]
        return Decision(records, None, partial(self._removed, group.id, member.id))

    def _removed(self, group_id: str, member_id: str, error: KafkaError | None) -> None:
        if error is not None:
            self.expect(group_id, member_id, RETRY_MS)

    def expect(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timers.schedule(
            ("session", group_id, member_id), timeout_ms, partial(self._session_is_over, group_id, member_id)
        )

    def _session_is_over(self, group_id: str, member_id: str) -> Decision[None] | None:
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        return None if group is None or member is None else self._remove(group, member)

    def loaded(self, groups: Iterable[ShareGroup]) -> None:
        for group in groups:
            for member_id in group.members:
                self.expect(group.id, member_id, self.settings(group.id).session_timeout_ms)


def _initializing(states: Initialized, topics: Mapping[Uuid, tuple[str, frozenset[int]]]) -> Initialized:
    initializing = dict(states.initializing)
    for topic_id, (name, partitions) in topics.items():
        initializing[topic_id] = (name, partitions | initializing.get(topic_id, (name, frozenset()))[1])
    deleting = {key: name for key, name in states.deleting.items() if key not in initializing}
    return Initialized(initializing, states.initialized, deleting)


def _waits_to_be_assigned(group: ShareGroup) -> bool:
    """Partitions are ready that no member has."""
    if group.is_empty:
        return False
    held: dict[Uuid, frozenset[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            held[topic_id] = held.get(topic_id, frozenset()) | partitions
    return any(
        name in group.topics and held.get(topic_id) != partitions
        for topic_id, (name, partitions) in group.states.initialized.items()
    )


def _topics_after(group: ShareGroup, gone: ShareMember, come: ShareMember | None) -> set[str]:
    left = {
        topic
        for topic, count in group.topics.items()
        if count.by_name > (topic in gone.topics and gone.id in group.members)
    }
    return left | (come.topics if come is not None else frozenset())


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch in (JOINING, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return
    than = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {than} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )
