"""Committing, fetching and deleting offsets: requests in, records and answers out.

Whether topics exist and whether the caller may use them is settled before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision, Producer
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import TimelineDict
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.kinds import Group
from barnabas.core.groups.offsets import CommittedOffset, Offsets, TopicPartition
from barnabas.core.groups.rebalance import Rebalance
from barnabas.core.groups.records import NO_TIMESTAMP, offset_record
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import CONSUMER_PROTOCOL, ClassicGroup, Phase
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.groups import OffsetCommitValue

DEFAULT_RETENTION = -1


class Commit(NamedTuple):
    """One partition's new offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class Committer(NamedTuple):
    """Who commits: a member of a generation, or nobody in particular (-1 and no names)."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation_id: int = -1


class Fetched(NamedTuple):
    topic: str
    partition: int
    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


class Commits:
    def __init__(
        self,
        groups: TimelineDict[str, Group],
        offsets: Offsets,
        rebalance: Rebalance,
        settings: Callable[[], GroupSettings],
        clock: Callable[[], int],
        image: Callable[[], Cluster],
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._rebalance = rebalance
        self._settings = settings
        self._clock = clock
        self._image = image

    def commit(
        self,
        committer: Committer,
        commits: Iterable[Commit],
        *,
        retention_ms: int = DEFAULT_RETENTION,
        no_group: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND,
        knows_epochs: bool = True,
    ) -> Decision[list[ErrorCode]]:
        """An error for each commit, in order. `no_group` is what a member of an unknown group is told; `knows_epochs`
        says whether the request is of a version that members of the consumer protocol may use."""
        group = self._groups.get(committer.group_id)
        if isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            commits = list(commits)
            member_id = committer.member_id
            if not knows_epochs and member_id in group.members and not group.member(member_id).is_classic:
                protocol = group.type.value
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"OffsetCommit version 9 or above must be used by members using the {protocol} group protocol",
                )
            self._check_epochs(group, committer, commits, transactional=False)
        elif group is not None:
            check_commit(group, committer, transactional=False)
            member = group.members.get(committer.member_id)
            if member is not None and group.phase in (Phase.STABLE, Phase.PREPARING_REBALANCE):
                self._rebalance.expect(group, member.id, member.session_timeout_ms)
        elif committer.generation_id >= 0:
            raise KafkaError(no_group)
        now_ms = self._clock()
        expires_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION else now_ms + retention_ms
        records, errors = self._records(committer.group_id, commits, now_ms, expires_ms)
        return Decision(records, errors)

    def commit_in_transaction(
        self, committer: Committer, commits: Iterable[Commit], producer: Producer
    ) -> Decision[list[ErrorCode]]:
        """As `commit`, but pending until the producer's transaction ends."""
        group = self._groups.get(committer.group_id)
        if isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            commits = list(commits)
            try:
                self._check_epochs(group, committer, commits, transactional=True)
            except KafkaError as error:
                stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
                raise (KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) if stale else error) from None
        elif group is not None:
            check_commit(group, committer, transactional=True)
        elif committer.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        records, errors = self._records(committer.group_id, commits, self._clock(), NO_TIMESTAMP)
        return Decision(records, errors, producer=producer)

    def _check_epochs(
        self,
        group: ConsumerGroup | StreamsGroup,
        committer: Committer,
        commits: Iterable[Commit],
        *,
        transactional: bool,
    ) -> None:
        """A member that is an epoch behind may commit what it has had since."""
        member_id, epoch = committer.member_id, committer.generation_id
        if not group.check_commit(member_id, committer.instance_id, epoch, transactional=transactional):
            return
        topics = self._image().topics
        for commit in commits:
            topic = topics.get(commit.topic)
            topic_id = topic.topic_id if topic is not None else None
            group.check_partition(member_id, epoch, commit.topic, topic_id, commit.partition)

    def _records(
        self, group_id: str, commits: Iterable[Commit], now_ms: int, expires_ms: int
    ) -> tuple[list[CoordinatorRecord], list[ErrorCode]]:
        max_bytes = self._settings().offset_metadata_max_bytes
        records, errors = [], []
        for topic, partition, offset, leader_epoch, metadata in commits:
            if metadata is not None and len(metadata) > max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            value = OffsetCommitValue(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata or "",
                commit_timestamp=now_ms,
                expire_timestamp=expires_ms,
            )
            records.append(offset_record(group_id, topic, partition, value))
            errors.append(ErrorCode.NONE)
        return records, errors

    # Fetching

    def fetch(
        self,
        group_id: str,
        wanted: Iterable[TopicPartition] | None,
        *,
        stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[Fetched]:
        """The offsets wanted, or all there are. `stable` ones are the latest, unless a transaction may change them.

        Those who ask for stable offsets have to wait until what they saw is committed.
        """
        group = self._groups.committed(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            group.check_fetch(member_id, member_epoch)
        offsets = self._offsets
        if wanted is None:
            found = offsets.all_latest(group_id) if stable else offsets.all_committed(group_id)
            listed: Iterable[tuple[TopicPartition, CommittedOffset | None]] = found
        else:
            find = offsets.latest if stable else offsets.committed
            listed = [(at, find(group_id, *at)) for at in wanted]
        if not stable:
            return [Fetched(*at, committed) for at, committed in listed]
        pending = offsets.pending(group_id)
        return [
            Fetched(*at, None, ErrorCode.UNSTABLE_OFFSET_COMMIT) if at in pending else Fetched(*at, committed)
            for at, committed in listed
        ]

    # Deleting

    def delete(self, group_id: str, unwanted: Iterable[TopicPartition]) -> Decision[list[ErrorCode]]:
        """An error for each partition, in order."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        known = {
            (record.key.topic, record.key.partition): record  # type: ignore[attr-defined]
            for record in self._offsets.tombstones_of_group(group_id)
        }
        records: dict[TopicPartition, CoordinatorRecord] = {}
        errors = []
        for at in unwanted:
            if group.subscribes_to(at[0]):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            if at in known:
                records[at] = known[at]
        return Decision(list(records.values()), errors)


def check_commit(group: ClassicGroup, committer: Committer, *, transactional: bool) -> None:
    """Whether the group takes offsets from this one, now."""
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if committer.generation_id < 0 and group.is_empty:
        return
    if committer.generation_id >= 0 or committer.member_id or committer.instance_id is not None:
        group.check_member(committer.member_id, committer.instance_id)
        group.check_generation(committer.generation_id)
    elif not transactional and not group.is_empty:
        # Somebody who assigns partitions to itself in a group that has members.
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.phase is Phase.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
