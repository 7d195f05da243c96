"""What must hold, whatever happens: watched at every step, and at the end of a story.

- A record that was acknowledged is at its offset on every in-sync replica that has not lost its disk's end since, and
  at the end on all.
- A record that a consumer has read is the only one ever read at its offset, and is there at the end.
- Nobody leads the partition in an epoch in which another leads it.
- A leader is in sync, or was elected uncleanly where that is allowed.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas.core.metadata.state import PartitionState

if TYPE_CHECKING:
    from tests.support.replication.cluster import Cluster, SimulatedBroker

RECENT = 40  # so many offsets are looked at after each acknowledgement


class Judges:
    cluster: Cluster

    def __init__(self, *, allows_loss: bool = False) -> None:
        self.allows_loss = allows_loss
        self.committed: dict[int, int] = {}  # value by offset, as acknowledged or read
        self.acknowledged_values: dict[int, int] = {}
        self.last = 0  # offset of these
        self.leaders: dict[int, int] = {}

    def fail(self, why: str) -> None:
        raise AssertionError(why)

    def promised(self, broker: SimulatedBroker, value: int, offset: int) -> None:
        """A leader has decided to acknowledge."""
        if not self.allows_loss:
            self._commit(offset, value, f"{broker.id} acknowledges")
            self.look()

    def acknowledged(self, value: int, offset: int) -> None:
        self.acknowledged_values[value] = offset

    def read(self, broker: SimulatedBroker, offset: int, value: int) -> None:
        if not self.allows_loss:
            self._commit(offset, value, f"{broker.id} serves")

    def read_from(self, random: Random) -> int:
        return max(self.last - random.randint(0, 30), 0)

    def _commit(self, offset: int, value: int, what: str) -> None:
        self.last = max(self.last, offset)
        known = self.committed.setdefault(offset, value)
        if known != value:
            self.fail(f"{what} {value} at offset {offset}, where {known} was committed")

    def committed_metadata(self, before: PartitionState, after: PartitionState) -> None:
        if after.leader >= 0:
            known = self.leaders.setdefault(after.leader_epoch, after.leader)
            if known != after.leader:
                self.fail(f"{known} and {after.leader} lead in epoch {after.leader_epoch}")
            if after.leader not in after.isr:
                self.fail(f"{after.leader} leads and is not in sync: {after.isr}")
        for replica in set(after.isr) - set(before.isr):
            self._joined(self.cluster.brokers[replica])

    def _joined(self, broker: SimulatedBroker) -> None:
        registered = self.cluster.controller.image.brokers[broker.id].incarnation_id
        if registered != broker.incarnation or (broker.lost_tail and not broker.is_up):
            return  # it has stopped since it was last heard of, and will be taken out when it registers again
        if not self.allows_loss:
            self._has_everything(broker)
        if broker.is_up:
            broker.lost_tail = False

    def look(self) -> None:
        for replica in self.cluster.controller.partition.isr:
            broker = self.cluster.brokers[replica]
            if not broker.lost_tail:
                self._has_everything(broker, self.last - RECENT)

    def _has_everything(self, broker: SimulatedBroker, since: int = 0) -> None:
        values = broker.log.values
        for offset in range(max(since, 0), self.last + 1):
            value = self.committed.get(offset)
            if value is None:
                continue
            if offset >= len(values) or values[offset] != value:
                found = values[offset] if offset < len(values) else "nothing"
                self.fail(f"{broker.id} is in sync and has {found} at offset {offset}, where {value} was committed")

    def end(self) -> None:
        """All are up and in sync: their logs are the same, and nothing is missing."""
        logs = {broker.id: broker.log.values for broker in self.cluster.brokers.values()}
        first = next(iter(logs.values()))
        for broker_id, values in logs.items():
            if values != first:
                self.fail(f"the logs differ in the end: {broker_id} has {values[-5:]}, another {first[-5:]}")
        if len(set(first)) != len(first):
            self.fail("a value is in the log twice")
        if self.allows_loss:
            return
        for value, offset in self.acknowledged_values.items():
            if offset >= len(first) or first[offset] != value:
                self.fail(f"{value} was acknowledged at offset {offset} and is lost")
        for offset, value in self.committed.items():
            if offset >= len(first) or first[offset] != value:
                self.fail(f"{value} was seen at offset {offset} and is lost")
