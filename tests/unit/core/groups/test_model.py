"""Members, time, failing appends and restarts at random: what must hold whatever happens.

Consumers behave as real ones do: they join, the leader deals the partitions out, they commit what they own, they go
silent, they come back. A seed that fails is its own test.
"""

from __future__ import annotations

from random import Random

import pytest

from barnabas.core.coordinator.promise import Promise
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.state import Phase
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

from .stage import NEW, Stage

PARTITIONS = range(5)
STEPS = 250


class Consumer:
    """One client; what it believes."""

    def __init__(self, stage: Stage, instance: str | None) -> None:
        self.stage = stage
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None

    def forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.rejoin()

    def rejoin(self) -> None:
        self.owned, self.joining, self.syncing = [], None, None

    def step(self) -> None:
        """Does the next thing a consumer does."""
        if self.joining is not None:
            if self.joining.is_done:
                self._joined()
        elif self.syncing is not None:
            if self.syncing.is_done:
                self._synced()
        elif self.generation < 0 or not self.owned:
            self.joining = self.stage.join(
                self.member_id, caller=NEW, instance=self.instance, session_timeout_ms=6_000, rebalance_timeout_ms=9_000
            )
        else:
            self._react(self.stage.heartbeat(self.member_id, self.generation, self.instance))

    def _joined(self) -> None:
        assert self.joining is not None
        promise, self.joining = self.joining, None
        if promise.error is not None:
            return
        response = promise.result()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code:
            self._react(ErrorCode(response.error_code))
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            dealt: dict[str, bytes] = {}
            if response.leader == self.member_id and not response.skip_assignment:
                ids = [each.member_id for each in response.members]
                dealt = dict.fromkeys(ids, b"")
                for index in PARTITIONS:
                    dealt[ids[index % len(ids)]] += bytes([index])
            self.syncing = self.stage.sync(self.member_id, self.generation, dealt, self.instance)

    def _synced(self) -> None:
        assert self.syncing is not None
        promise, self.syncing = self.syncing, None
        if promise.error is not None:
            self.generation = -1
        elif promise.result().error_code:
            self._react(ErrorCode(promise.result().error_code))
        else:
            self.owned = list(promise.result().assignment)

    def _react(self, error: ErrorCode) -> None:
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            self.generation = -1
            self.rejoin()
        elif error is not ErrorCode.NONE:
            self.forget()


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage()
        self.consumers = [
            Consumer(self.stage, f"static-{number}" if number % 3 == 2 else None)
            for number in range(self.random.randint(1, 5))
        ]
        self.accepted: dict[int, int] = {}
        self.waiting: list[tuple[int, int, Promise[list[ErrorCode]]]] = []
        self.next_offset = 0

    def step(self) -> None:
        random, stage = self.random, self.stage
        consumer = random.choice(self.consumers)
        match random.choices(
            ["step", "commit", "time", "crash", "leave", "fail", "lag", "restart"], [60, 15, 10, 2, 2, 3, 5, 1]
        )[0]:
            case "step":
                consumer.step()
            case "commit":
                self.commit(consumer)
            case "time":
                stage.pass_ms(random.choice([10, 1_000, 3_000]))
            case "crash":
                consumer.forget()
            case "leave" if consumer.member_id:
                stage.leave(consumer.member_id)
                consumer.forget()
            case "fail":
                stage.failing = not stage.failing
            case "lag":
                stage.auto_commit = not stage.auto_commit
            case "restart":
                self.restart()
        if stage.auto_commit:
            stage.commit_log()
        self.collect()
        self.check()

    def commit(self, consumer: Consumer) -> None:
        for partition in consumer.owned:
            self.next_offset += 1
            committer = Committer("g", consumer.member_id, consumer.instance, consumer.generation)
            commits = [Commit("t", partition, self.next_offset)]
            group = self.stage.shard.groups.get("g")
            generation = group.generation_id if group is not None else -1
            promise = self.stage.run(lambda shard, c=committer, o=commits: shard.commits.commit(c, o))  # type: ignore[misc]
            if promise.error is None:
                assert consumer.generation == generation, "somebody of an older generation has committed"
            self.waiting.append((partition, self.next_offset, promise))

    def restart(self) -> None:
        """What was appended is there; what was promised and not answered may be there or not."""
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.commit_log()
        self.collect()
        self.stage.start()
        self.waiting.clear()
        for consumer in self.consumers:
            if consumer.joining is not None or consumer.syncing is not None:
                consumer.rejoin()

    def collect(self) -> None:
        left = []
        for partition, offset, promise in self.waiting:
            if not promise.is_done:
                left.append((partition, offset, promise))
            elif promise.error is None and promise.result() == [ErrorCode.NONE]:
                self.accepted[partition] = max(offset, self.accepted.get(partition, -1))
        self.waiting = left

    def check(self) -> None:
        for partition, offset in self.accepted.items():
            found = self.stage.committed(partition)
            assert found == offset, f"partition {partition}: committed {offset}, found {found}"
        group = self.stage.shard.groups.get("g")
        if group is None or group.phase is not Phase.STABLE:
            return
        current = [
            each
            for each in self.consumers
            if each.generation == group.generation_id and each.member_id in group.members and each.owned
        ]
        owned = [partition for each in current for partition in each.owned]
        assert len(owned) == len(set(owned)), f"two owners in generation {group.generation_id}: {owned}"
        assigned = [partition for member in group.members.values() for partition in member.assignment]
        assert sorted(assigned) == list(PARTITIONS), f"generation {group.generation_id} assigned {assigned}"

    def settle(self) -> None:
        """Left alone, everybody who is there gets to work and every partition has one owner."""
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.commit_log()
        self.collect()
        for _ in range(60):
            for consumer in self.consumers:
                consumer.step()
            self.stage.pass_ms(500)
            self.check()
        owned = [partition for each in self.consumers for partition in each.owned]
        assert sorted(owned) == list(PARTITIONS), f"in the end {owned}"


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_has_two_owners_and_no_committed_offset_is_lost(seed: int) -> None:
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
    play.settle()
