"""One change of a partition: new in-sync replicas, new replicas or an election become one PartitionChangeRecord.

Whatever makes a partition change (a broker is fenced, comes back or leaves, the leader alters the in-sync replicas, an
election is asked for, a reassignment goes on) says what it wants, and the same rules work out the rest, in this order:

1. A reassignment is completed if all added replicas are in sync.
2. Eligible leader replicas (if the feature is on): while fewer than `min.insync.replicas` are in sync, those who leave
   the in-sync replicas stay eligible, because everything committed is on them. Who stopped uncleanly is not.
3. The leader: the present one if it may lead; else the first replica that is in sync (or eligible, if nobody is in
   sync) and acceptable; else the last known leader, if nobody is in sync or eligible and it alone is known; else, in an
   unclean election, the first acceptable replica, which then recovers. Otherwise nobody.
4. A reassignment that drops replicas gives the partition a new leader epoch, so that nobody counts them any more.

Without eligible leader replicas the last replica in sync stays in sync though it is gone: who comes back with it has
everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from barnabas.core.controller.directories import default_directory, directory_of
from barnabas.core.metadata.state import NO_LEADER, NO_LEADER_CHANGE, MetadataImage, PartitionState
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.uuids import Uuid

RECOVERED, RECOVERING = 0, 1


class Election(Enum):
    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """What is wanted. `None` means: as it is."""

    partition: PartitionState
    acceptable: Callable[[int], bool]  # who may lead, by broker id
    min_insync_replicas: int
    tracks_eligible_leaders: bool
    isr: list[int] | None = None
    replicas: list[int] | None = None
    adding: list[int] | None = None
    removing: list[int] | None = None
    recovery_state: int | None = None
    unclean_shutdown: Sequence[int] = ()
    election: Election = Election.ONLINE
    directories: dict[int, Uuid] = field(default_factory=dict)  # of replicas that are new or have moved

    def record(self, image: MetadataImage) -> PartitionChangeRecord | None:
        """None if nothing changes."""
        return _Change(self).record(image)


class _Change:
    def __init__(self, wanted: PartitionChange) -> None:
        partition = wanted.partition
        self.wanted = wanted
        self.partition = partition
        self.isr = partition.isr if wanted.isr is None else wanted.isr
        self.replicas = partition.replicas if wanted.replicas is None else wanted.replicas
        self.adding = partition.adding_replicas if wanted.adding is None else wanted.adding
        self.removing = partition.removing_replicas if wanted.removing is None else wanted.removing
        self.eligible = partition.eligible_leader_replicas

    def record(self, image: MetadataImage) -> PartitionChangeRecord | None:
        partition, wanted = self.partition, self.wanted
        record = PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.index)
        self._complete_reassignment()
        self._find_eligible()
        self._elect(record)
        self._drop_replicas(record)
        if record.isr is not None or not wanted.tracks_eligible_leaders:
            self.eligible = []
        if self.eligible != partition.eligible_leader_replicas:
            record.eligible_leader_replicas = self.eligible
        may_be_empty = wanted.tracks_eligible_leaders
        if record.isr is None and (self.isr or may_be_empty) and self.isr != partition.isr:
            record.isr = self.isr
        self._remember_leader(record)
        self._assign(record, image)
        recovery = wanted.recovery_state
        if recovery is not None and recovery != partition.leader_recovery_state:
            record.leader_recovery_state = recovery
        empty = PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.index)
        return None if record == empty else record

    def _complete_reassignment(self) -> None:
        if not self.adding and not self.removing:
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        # Fewer replicas than before: completed only if all that remain are in sync.
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, [], []

    def _find_eligible(self) -> None:
        if not self.wanted.tracks_eligible_leaders:
            return
        if len(self.isr) >= self.wanted.min_insync_replicas:
            self.eligible = []
            return
        candidates = {*self.eligible, *self.partition.isr} - set(self.isr) - set(self.wanted.unclean_shutdown)
        self.eligible = sorted(candidates)

    def _may_lead(self, replica: int) -> bool:
        has_everything = replica in self.isr or (not self.isr and replica in self.eligible)
        return has_everything and self.wanted.acceptable(replica)

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._leader()
        if leader == self.partition.leader:
            return
        if leader in self.eligible:
            self.isr = [leader]
            self.eligible = [replica for replica in self.eligible if replica != leader]
        record.leader = leader
        if is_unclean:
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _leader(self) -> tuple[int, bool]:
        """The leader, and whether it may lack what was committed."""
        first = self.replicas[:1] if self.wanted.election is Election.PREFERRED else []
        for replica in (*first, self.partition.leader, *self.replicas):
            if self._may_lead(replica):
                return replica, False
        last_known = self.partition.last_known_elr
        is_sure = self.wanted.tracks_eligible_leaders and not self.isr and not self.eligible and len(last_known) == 1
        if is_sure and self.wanted.acceptable(last_known[0]):
            return last_known[0], True
        if self.wanted.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self.wanted.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _drop_replicas(self, record: PartitionChangeRecord) -> None:
        if record.leader == NO_LEADER_CHANGE and not set(self.partition.replicas) <= set(self.replicas):
            record.leader = self.partition.leader

    def _remember_leader(self, record: PartitionChangeRecord) -> None:
        if not self.wanted.tracks_eligible_leaders:
            return
        if record.leader == NO_LEADER and not self.partition.last_known_elr:
            record.last_known_elr = [self.partition.leader]
        elif record.leader >= 0 and self.partition.last_known_elr:
            record.last_known_elr = []

    def _assign(self, record: PartitionChangeRecord, image: MetadataImage) -> None:
        partition = self.partition
        directories = [self._directory(replica, image) for replica in self.replicas]
        if directories != [directory_of(partition, replica) for replica in partition.replicas]:
            record.directories = directories
        if self.replicas != partition.replicas:
            record.replicas = self.replicas
        if self.removing != partition.removing_replicas:
            record.removing_replicas = self.removing
        if self.adding != partition.adding_replicas:
            record.adding_replicas = self.adding

    def _directory(self, replica: int, image: MetadataImage) -> Uuid:
        if replica in self.wanted.directories:
            return self.wanted.directories[replica]
        if replica in self.partition.replicas:
            return directory_of(self.partition, replica)
        return default_directory(image.brokers[replica])
