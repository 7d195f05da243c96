"""Heartbeats of a consumer group: joining, staying, reconciling and leaving are one request.

A heartbeat goes through these steps, each of which may add records: the member's own description; the group epoch, if
subscriptions or topics have changed; the target assignment, if the epoch is ahead of it and the last one is not too
recent; and the member's next step to its target (`reconciliation`). A member that falls silent, or does not give
partitions back in time, is removed by a timer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.assignors import ASSIGNORS, Subscriber
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.consumer.reconciliation import Owned, Reconciliation
from barnabas.core.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from barnabas.core.groups.consumer.regexes import MayDescribe, RegexChange, Regexes, add_matches
from barnabas.core.groups.consumer.settings import ConsumerSettings
from barnabas.core.groups.modern import LEAVING_FOR_A_WHILE, Assigned, Count, Target, most_wanted
from barnabas.core.groups.topic_hashes import group_hash
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.wire.uuids import Uuid

T = TypeVar("T")

JOINING = 0
NO_TIMEOUT = -1
# When a removal that could not be written is tried again.
RETRY_MS = 500


class Asker(NamedTuple):
    """Who sends a heartbeat, and which topics it may know of."""

    client_id: str
    client_host: str
    may_describe: MayDescribe = lambda topic: True


class Change(NamedTuple):
    """A member before and after its request."""

    before: ConsumerMember
    after: ConsumerMember
    subscription_changed: bool
    bumps_epoch: bool
    owned: Owned


Downgrade = Callable[[ConsumerGroup, Sequence[ConsumerMember]], "list[CoordinatorRecord] | None"]


class ConsumerGroups:
    def __init__(
        self,
        find: Callable[[str], ConsumerGroup | None],
        timers: Timers,
        settings: Callable[[str], ConsumerSettings],
        clock: Callable[[], int],
        image: Callable[[], Cluster],
        new_id: Callable[[], str],
    ) -> None:
        """`find` knows the consumer groups of the shard, `settings` what counts for a group."""
        self._find = find
        self._timers = timers
        self.settings = settings
        self._clock = clock
        self.image = image
        self._new_id = new_id
        self.regexes = Regexes(
            find, timers, clock, image, lambda group_id: settings(group_id).regex_refresh_interval_ms
        )
        # Gives the records that make a classic group of what is left, or None; set by the shard.
        self.downgrade: Downgrade = lambda group, leaving: None

    # Heartbeats

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        asker: Asker,
        group: ConsumerGroup | None,
        records: list[CoordinatorRecord],
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """`group` is None if it is to be made; `records` are those that made it ready."""
        if group is None:
            group = ConsumerGroup(request.group_id, Timeline())
        settings = self.settings(group.id)
        member_id = request.member_id or self._new_id()
        if len(group.members) >= settings.max_size and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {settings.max_size} members.",
            )
        owned = None if request.topic_partitions is None else owned_of(request.topic_partitions)
        member = self._member(group, member_id, request, owned, records)
        updated = _updated(member, request, asker)
        if updated is not member or len(group.regexes) or not group.is_settled(member):
            change = self.describe_change(group, member, updated, owned, asker.may_describe, records)
            if request.member_epoch == JOINING:
                self.succeed(group, request.instance_id)
            updated = self.advance(group, change, records)
        self.expect(group.id, updated.id, settings.session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if request.member_epoch == JOINING or _is_full(request) or _have_changed(member.assigned, updated.assigned):
            response.assignment = Assignment(topic_partitions=_listed(updated.assigned))
        if request.member_epoch == JOINING and request.instance_id is not None:
            return Decision(records, response, partial(self._instance_joined, group.id))
        if member.state is MemberState.UNREVOKED_PARTITIONS and records:
            return Decision(records, response, partial(self._went_on, group.id, member.id))
        return Decision(records, response)

    def _instance_joined(self, group_id: str, error: KafkaError | None) -> None:
        if error is not None:  # whoever it took the place of is there still
            self.restore(group_id)

    def _went_on(self, group_id: str, member_id: str, error: KafkaError | None) -> None:
        if error is not None:  # it still has to give partitions back, and the timer for that was stopped
            self._expect_revocation(group_id, member_id)

    def _member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        owned: Owned,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        joins, instance_id = request.member_epoch == JOINING, request.instance_id
        if instance_id is None:
            known = group.members.get(member_id)
            if known is None and joins:
                return ConsumerMember(id=member_id)
            member = group.member(member_id)
        else:
            static = group.static_member(instance_id)
            if joins:
                return self.replace_static(group, member_id, instance_id, static, records, speaks_classic=False)
            member = require_instance(static, member_id, instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member

    def replace_static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        static: ConsumerMember | None,
        records: list[CoordinatorRecord],
        *,
        speaks_classic: bool,
    ) -> ConsumerMember:
        """The member that an instance becomes: a new one, or the heir of the one it was before."""
        if static is None:
            return group.members.get(member_id) or ConsumerMember(id=member_id)
        if not speaks_classic and not static.is_classic and static.epoch != LEAVING_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance"
                f" id is owned by {static.id} member.",
            )
        heir = replace(static, id=member_id, epoch=0, previous_epoch=0)
        records += member_tombstones(group.id, static.id)
        records.append(member_record(group.id, heir))
        records.append(target_record(group.id, member_id, group.target(static.id)))
        records.append(current_record(group.id, heir))
        return heir

    def succeed(self, group: ConsumerGroup, instance_id: str | None) -> None:
        """Nothing is refused any more: the timers of the member that the instance was before are not needed."""
        former = group.static_member(instance_id)
        if former is not None:
            self.cancel(group.id, former.id)

    def describe_change(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        owned: Owned,
        may_describe: MayDescribe,
        records: list[CoordinatorRecord],
    ) -> Change:
        names_changed = False
        if updated is not member and updated != member:
            records.append(member_record(group.id, updated))
            names_changed = updated.topics != member.topics
        regex = self.regexes.update(group, member, updated, may_describe, records)
        changed = names_changed or regex is not RegexChange.NONE
        by_regex = regex is RegexChange.RESOLVED if not updated.is_classic else regex is not RegexChange.NONE
        return Change(member, updated, changed, names_changed or by_regex, owned)

    def advance(self, group: ConsumerGroup, change: Change, records: list[CoordinatorRecord]) -> ConsumerMember:
        """Epoch, target, and the member's step."""
        epoch = self.next_epoch(group, change, records)
        target_epoch, target = self._next_target(group, epoch, change, records)
        return self.reconcile(group, change, target_epoch, target, records)

    def next_epoch(self, group: ConsumerGroup, change: Change, records: list[CoordinatorRecord]) -> int:
        epoch = group.epochs.group
        if not change.bumps_epoch and not group.needs_refresh:
            return epoch
        old_regex = change.before.regex
        is_dropped = old_regex and old_regex != change.after.regex and group.regexes.get(old_regex) == 1
        topics = _topics_after(group, [change.before], change.after, [old_regex] if is_dropped else [])
        metadata_hash = group_hash(topics, self.image())
        if change.bumps_epoch or metadata_hash != group.epochs.metadata_hash:
            epoch += 1
            records.append(epoch_record(group.id, epoch, metadata_hash))
        group.refreshed(epoch)
        if group.has_partition_metadata:
            records.append(partition_metadata_tombstone(group.id))
        return epoch

    # The target assignment

    def _next_target(
        self, group: ConsumerGroup, epoch: int, change: Change, records: list[CoordinatorRecord]
    ) -> tuple[int, Target]:
        now_ms, epochs, member = self._clock(), group.epochs, change.after
        settings = self.settings(group.id)
        too_soon = epochs.assigned_ms and now_ms < epochs.assigned_ms + settings.assignment_interval_ms
        if epochs.assignment >= epoch or too_soon:
            return epochs.assignment, last_target(group, member)
        members = {each.id: each for each in group.members.values()}
        members[member.id] = member
        former = None if member.instance_id is None else group.static_members.get(member.instance_id)
        if former is not None and former != member.id:
            members.pop(former, None)
        image = self.image()
        subscribed: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
        for each in members.values():
            if (each.topics, each.regex) not in subscribed:
                subscribed[each.topics, each.regex] = frozenset(group.subscribed_ids(each, image))
        subscribers = {
            each.id: Subscriber(
                each.instance_id,
                subscribed[each.topics, each.regex],
                last_target(group, each) if each.id == member.id else group.target(each.id),
            )
            for each in members.values()
        }
        wanted = sorted({topic_id for topics in subscribed.values() for topic_id in topics})
        sizes = {topic_id: len(image.topics[image.topic_names[topic_id]].partitions) for topic_id in wanted}
        name = most_wanted(each.assignor for each in members.values()) or settings.assignors[0]
        targets = ASSIGNORS[name](subscribers, sizes)
        for member_id in subscribers:
            target = targets.get(member_id, {})
            if target != group.targets.get(member_id):
                records.append(target_record(group.id, member_id, target))
        records.append(target_epoch_record(group.id, epoch, now_ms))
        return epoch, targets.get(member.id, {})

    def reconcile(
        self,
        group: ConsumerGroup,
        change: Change,
        target_epoch: int,
        target: Target,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        member = change.after
        if not change.subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        subscribed = group.subscribed_ids(member, self.image())
        reconciliation = Reconciliation(member, target, target_epoch, subscribed, change.owned, group.is_held)
        updated = reconciliation.step(subscription_changed=change.subscription_changed)
        if updated == member:
            return member
        records.append(current_record(group.id, updated))
        if not updated.is_classic:
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                self._time_revocation(group.id, updated)
            else:
                self._timers.cancel(("rebalance", group.id, member.id))
        return updated

    # Leaving

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        member_id, epoch = request.member_id, request.member_epoch
        response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
        if request.instance_id is None:
            return self.remove(group, [group.member(member_id)], response)
        member = require_instance(group.static_member(request.instance_id), member_id, request.instance_id)
        if epoch != LEAVING_FOR_A_WHILE:
            return self.remove(group, [member], response)
        assigned = {topic_id: dict.fromkeys(each, 0) for topic_id, each in member.assigned.items()}
        away = replace(member, epoch=LEAVING_FOR_A_WHILE, revoking={}, assigned=assigned)
        return Decision([current_record(group.id, away)], response)

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], response: T) -> Decision[T]:
        """If only members of the classic protocol are left, the group becomes a classic one."""
        if not members:
            return Decision([], response)
        member_ids = [member.id for member in members]
        downgraded = self.downgrade(group, members)
        if downgraded is not None:
            return Decision(downgraded, response, partial(self._downgraded, group.id, member_ids))
        records: list[CoordinatorRecord] = []
        for member in members:
            records += member_tombstones(group.id, member.id)
            self.cancel(group.id, member.id)
        leaving = Counter(member.regex for member in members if member.regex)
        dropped = [regex for regex, count in leaving.items() if group.regexes.get(regex) == count]
        records += [regex_tombstone(group.id, regex) for regex in dropped]
        metadata_hash = group_hash(_topics_after(group, members, None, dropped), self.image())
        records.append(epoch_record(group.id, group.epochs.group + 1, metadata_hash))
        return Decision(records, response, partial(self._removed, group.id, member_ids))

    def _downgraded(self, group_id: str, member_ids: Iterable[str], error: KafkaError | None) -> None:
        if error is not None:
            self.restore(group_id)
            self._removed(group_id, member_ids, error)

    def _removed(self, group_id: str, member_ids: Iterable[str], error: KafkaError | None) -> None:
        if error is not None:
            # They are still there: as nobody else will, the timers try again.
            for member_id in member_ids:
                self.expect(group_id, member_id, RETRY_MS)
                self._expect_revocation(group_id, member_id)

    # Time

    def expect(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timers.schedule(("session", group_id, member_id), timeout_ms, partial(self.give_up, group_id, member_id))

    def give_up(self, group_id: str, member_id: str) -> Decision[None] | None:
        """The member has not been heard of for too long."""
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        return None if group is None or member is None else self.remove(group, [member], None)

    def _time_revocation(self, group_id: str, member: ConsumerMember) -> None:
        due = partial(self._rebalance_is_over, group_id, member.id, member.epoch)
        self._timers.schedule(("rebalance", group_id, member.id), member.rebalance_timeout_ms, due)

    def _expect_revocation(self, group_id: str, member_id: str) -> None:
        """After a write that failed: the timer was stopped, or is that of an epoch that never was."""
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
            self._time_revocation(group_id, member)

    def _rebalance_is_over(self, group_id: str, member_id: str, epoch: int) -> Decision[None] | None:
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None or member.epoch != epoch:
            return None
        # The write that told it to give partitions back may have failed.
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return None
        return self.remove(group, [member], None)

    def restore(self, group_id: str) -> None:
        """A write has failed: the members are as before, but their timers were stopped or those of a classic group."""
        group = self._find(group_id)
        if group is not None:
            self.loaded([group])

    def cancel(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "rebalance", "join", "sync"):
            self._timers.cancel((kind, group_id, member_id))

    def loaded(self, groups: Iterable[ConsumerGroup]) -> None:
        for group in groups:
            timeout_ms = self.settings(group.id).session_timeout_ms
            for member in group.members.values():
                self.expect(group.id, member.id, timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._time_revocation(group.id, member)


def last_target(group: ConsumerGroup, member: ConsumerMember) -> Target:
    """Of the member, or of the one whose instance it has become."""
    former = None if member.instance_id is None else group.static_members.get(member.instance_id)
    return group.target(former or member.id)


def owned_of(listed: Iterable[TopicPartitions]) -> Owned:
    return {each.topic_id: each.partitions for each in listed}


def require_instance(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}.",
        )
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """A member may be one epoch behind, if it missed an answer and owns no more than it was given."""
    if epoch in (JOINING, member.epoch):
        return
    missed_an_answer = epoch < member.epoch and epoch == member.previous_epoch
    if missed_an_answer and owned is not None and _owns_no_more(owned, member.assigned):
        return
    than = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _owns_no_more(owned: Mapping[Uuid, Collection[int]], assigned: Assigned) -> bool:
    return all(set(partitions) <= set(assigned.get(topic_id, ())) for topic_id, partitions in owned.items())


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, asker: Asker) -> ConsumerMember:
    """Most heartbeats say nothing new."""
    says_nothing = (
        request.rack_id is None
        and request.rebalance_timeout_ms == NO_TIMEOUT
        and request.server_assignor is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
    )
    if (
        says_nothing
        and member.instance_id == request.instance_id
        and member.client_id == asker.client_id
        and member.client_host == asker.client_host
        and member.classic is None
    ):
        return member
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == NO_TIMEOUT else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=asker.client_id,
        client_host=asker.client_host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and subscribes and request.topic_partitions is not None


def _have_changed(before: Assigned, after: Assigned) -> bool:
    if before is after:
        return False
    return {topic_id: set(each) for topic_id, each in before.items()} != {
        topic_id: set(each) for topic_id, each in after.items()
    }


def _listed(assigned: Assigned) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in assigned.items()]


def _topics_after(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], come: ConsumerMember | None, dropped: Iterable[str] = ()
) -> dict[str, Count]:
    """What the group subscribes to without some members and expressions, and with another member."""
    counts = dict(group.topics.items())
    changes: list[tuple[ConsumerMember | None, int]] = [*((each, -1) for each in gone), (come, 1)]
    for member, by in changes:
        for topic in member.topics if member is not None else ():
            count = counts.get(topic, Count())
            counts[topic] = count._replace(by_name=count.by_name + by)
    for regex in dropped:
        resolved = group.resolved.get(regex)
        if resolved is not None:
            add_matches(counts, resolved.topics, -1)
    return {topic: count for topic, count in counts.items() if count.by_name > 0 or count.by_regex > 0}
