"""The groups of one partition of __consumer_offsets: what the shared runtime drives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.records import CoordinatorRecord, Kinds
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import NO_TOPICS, Cluster
from barnabas.core.groups.commits import Commits
from barnabas.core.groups.consumer.settings import ConsumerSettings
from barnabas.core.groups.java_order import timeline_ordered
from barnabas.core.groups.kinds import Group, GroupsOfKind
from barnabas.core.groups.members import Members
from barnabas.core.groups.offsets import LoadTarget, Offsets
from barnabas.core.groups.records import KINDS, group_of_record, group_tombstone
from barnabas.core.groups.replay import replay_modern
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.share.decide import ShareSettings
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import ClassicGroup
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.groups import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

_OFFSET_KEY = OffsetCommitKey.api_key.to_bytes(2, "big")
# A round of looking for expired offsets goes on after a pause when it has looked at so many: a millisecond of work.
EXPIRY_TURN_OFFSETS = 5_000
EXPIRY_PAUSE_MS = 10
# Ordering the names of groups takes two microseconds each.
ORDERED_GROUPS_MAX = 500


class GroupShard:
    keeps_last_only = True

    def __init__(
        self,
        timers: Timers,
        settings: Callable[[], GroupSettings],
        clock: Callable[[], int],
        new_id: Callable[[], str],
        place: float = 1.0,
        *,
        image: Callable[[], Cluster] = lambda: NO_TOPICS,
        consumer_settings: Callable[[str], ConsumerSettings] = lambda group_id: ConsumerSettings(),
        share_settings: Callable[[str], ShareSettings] = lambda group_id: ShareSettings(),
        streams_settings: Callable[[str], StreamsSettings] = lambda group_id: StreamsSettings(),
    ) -> None:
        """`place` is where in the interval the first look for expired offsets falls, so that shards take turns."""
        self.timeline = Timeline()
        self.timers = timers
        self._settings = settings
        self._clock = clock
        self._is_loaded = False
        self._place = place
        self._unchecked: deque[str] = deque()
        # Where the offsets of a group and a topic go, by the beginning of their keys, while the log is loaded.
        self._targets: dict[bytes, LoadTarget] = {}
        self.groups: TimelineDict[str, Group] = TimelineDict(self.timeline)
        self.offsets = Offsets(self.timeline)
        self.members = Members(
            self.groups,
            timers,
            settings,
            consumer_settings,
            clock,
            image,
            new_id,
            share_settings=share_settings,
            streams_settings=streams_settings,
        )
        self.membership = self.members.classic
        self.commits = Commits(self.groups, self.offsets, self.membership.rebalance, settings, clock, image)
        self._classic = GroupsOfKind(self.groups, ClassicGroup)

    @property
    def kinds(self) -> Kinds:
        return KINDS

    # What the runtime tells

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                # Offsets without members: a group that assigns its partitions by itself.
                self.groups[key.group] = ClassicGroup(key.group, self._clock())
            self.offsets.replay(key, value, producer)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_group(key.group, value)
        else:
            replay_modern(self.groups, self.timeline, record)

    def load(self, entries: Sequence[tuple[bytes, bytes | None]], start: int) -> int:
        """Offsets, of which there may be millions: what they have in common is decoded once."""
        return self.offsets.load(entries, start, self._targets, self._target)

    def _target(self, key: bytes) -> LoadTarget | None:
        if key[:2] != _OFFSET_KEY:
            return None
        decoded = OffsetCommitKey.decode(key[2:], 0)
        if decoded.group not in self.groups:
            self.groups[decoded.group] = ClassicGroup(decoded.group, self._clock())
        target = self._targets[key[:-4]] = self.offsets.load_target(decoded.group, decoded.topic)
        return target

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """A record of ours only says what its group already is; a loaded one says what to make of it."""
        if value is None:
            # After compaction the tombstone of a classic group may follow the records of what it has become.
            if self._classic.get(group_id) is not None:
                self.groups.pop(group_id)
            self._targets.clear()  # an offset that follows makes the group anew
        elif not self._is_loaded:
            self.groups[group_id] = group_of_record(group_id, value)
        elif self._classic.get(group_id) is None:
            created = self.membership.created.pop(group_id, None)
            self.groups[group_id] = created or group_of_record(group_id, value)

    def replay_marker(self, marker: Marker) -> None:
        self.offsets.replay_marker(marker)

    def loaded(self) -> Decision[None] | None:
        self._is_loaded = True
        self._targets.clear()
        self._look_for_expired_after(int(self._place * self._settings().offsets_retention_check_interval_ms))
        records = self.members.loaded()
        return Decision(records, None, atomic=False) if records else None

    def unloaded(self, error: KafkaError) -> None:
        for group in list(self._classic.values()):
            self.membership.give_up(group, error.code)

    # Reading

    def committed_group(self, group_id: str) -> Group | None:
        return self.groups.committed(group_id)

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[Group]:
        """Those in any of the states and of any of the types, or all; the names are in lower case.

        A few come in the order in which Kafka lists them.
        """
        groups = dict(self.groups.committed_items())
        names = timeline_ordered(groups) if len(groups) <= ORDERED_GROUPS_MAX else groups
        return [
            group
            for group in map(groups.__getitem__, names)
            if (not types or group.type.value.lower() in types) and (not states or _is_in(states, group.state_name))
        ]

    # Removal

    def delete_group(self, group_id: str) -> Decision[ErrorCode]:
        group = self.groups.get(group_id)
        if group is None:
            return Decision([], ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            return Decision([], ErrorCode.NON_EMPTY_GROUP)
        records = [*self.offsets.tombstones_of_group(group_id), *self._tombstones(group)]
        return Decision(records, ErrorCode.NONE, atomic=False)

    def topics_deleted(self, topics: set[str]) -> Decision[None]:
        """Offsets of topics that are no more are of no use, and wrong if a topic of that name comes again."""
        return Decision(self.offsets.tombstones_of_topics(topics), None, atomic=False)

    def topics_changed(self, topics: Collection[str], *, created: bool) -> None:
        """Groups that subscribe to them look again at their next heartbeat."""
        self.members.topics_changed(topics, created=created)

    def expire_offsets(self) -> Decision[None]:
        """In all groups at once."""
        self._unchecked = deque(self.groups)
        return self._expire(len(self._unchecked) + self.offsets.count)

    def _expire(self, most: int) -> Decision[None]:
        """In as many groups as have so many offsets together."""
        now_ms, retention_ms = self._clock(), self._settings().offsets_retention_ms
        records: list[CoordinatorRecord] = []
        while self._unchecked and most > 0:
            group = self.groups.get(self._unchecked.popleft())
            if group is None:
                continue
            most -= 1 + self.offsets.count_of(group.id)
            tombstones, nothing_left = self.offsets.expire(group, now_ms, retention_ms)
            records += tombstones
            # A share group without members still knows how far it has come: the share coordinator keeps that.
            if nothing_left and group.is_empty and not isinstance(group, ShareGroup):
                records += self._tombstones(group)
        if not self._unchecked:
            self.offsets.prune()
        return Decision(records, None, atomic=False)

    def _look_for_expired_after(self, delay_ms: int) -> None:
        self.timers.schedule(("expiry",), delay_ms, self._look_for_expired)

    def _look_for_expired(self) -> Decision[None]:
        if not self._unchecked:
            self._unchecked = deque(self.groups)
        decision = self._expire(EXPIRY_TURN_OFFSETS)
        interval_ms = self._settings().offsets_retention_check_interval_ms
        self._look_for_expired_after(EXPIRY_PAUSE_MS if self._unchecked else interval_ms)
        return decision

    def _tombstones(self, group: Group) -> list[CoordinatorRecord]:
        self.members.streams.forget(group.id)
        return [group_tombstone(group.id)] if isinstance(group, ClassicGroup) else group.tombstones()


def _is_in(states: Collection[str], state_name: str) -> bool:
    """Kafka knows the filter for `NotReady` as not_ready alone, though its tools ask for notready."""
    return state_name.lower() in states or (state_name == "NotReady" and "not_ready" in states)
