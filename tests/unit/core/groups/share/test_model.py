"""Members of a share group, topics that grow, failing appends, a failing share coordinator, deletions and restarts at
random: what must hold whatever happens."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.core.groups.share.decide import ToInitialize
from barnabas.core.groups.share.group import ShareGroup
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.uuids import Uuid
from tests.unit.core.groups.consumer.consumers import cluster, grow, topic_id
from tests.unit.core.groups.stage import Stage

STEPS = 200


class ShareCoordinator:
    """Knows of each share partition in which epoch it was initialized; fails when it is told to."""

    def __init__(self, random: Random) -> None:
        self.epochs: dict[tuple[Uuid, int], int] = {}
        self.fails_often = False
        self._random = random

    def _fail(self) -> None:
        if self.fails_often and self._random.random() < 0.3:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def initialize(self, at: tuple[Uuid, int], epoch: int) -> None:
        self._fail()
        if self.epochs.get(at, epoch) > epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.epochs[at] = epoch

    def delete(self, at: tuple[Uuid, int]) -> None:
        self._fail()
        self.epochs.pop(at, None)


class Member:
    """One client; what it believes. It says everything again when it has missed an answer."""

    def __init__(self, play: Play, name: str, topics: list[str]) -> None:
        self.play = play
        self.name = name
        self.topics = topics
        self.lives = 0
        self.forget()

    def forget(self) -> None:
        self.lives += 1
        self.epoch = 0
        self.missed_an_answer = False
        self.has: set[tuple[Uuid, int]] = set()

    def step(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=f"{self.name}-{self.lives}",
            member_epoch=self.epoch,
            subscribed_topic_names=self.topics if self.epoch == 0 or self.missed_an_answer else None,
        )
        promise = self.play.stage.run(lambda shard: shard.members.share_heartbeat(request, "client", "/host"))
        self.missed_an_answer = not promise.is_done or promise.error is not None
        if promise.is_done and promise.error is not None:
            if promise.error.code is not ErrorCode.NOT_COORDINATOR:
                self.forget()
        elif promise.is_done:
            response, to_initialize = promise.result()
            self.epoch = response.member_epoch
            if response.assignment is not None:
                listed = response.assignment.topic_partitions
                self.has = {(each.topic_id, index) for each in listed for index in each.partitions}
            if to_initialize is not None:
                self.play.initialize(to_initialize)

    def leave(self) -> None:
        request = ShareGroupHeartbeatRequest(group_id="g", member_id=f"{self.name}-{self.lives}", member_epoch=-1)
        self.play.stage.run(lambda shard: shard.members.share_heartbeat(request, "client", "/host"))
        self.forget()


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.image = cluster(a=3, b=2)
        self.stage = Stage(cluster=self.image)
        self.coordinator = ShareCoordinator(self.random)
        wishes = [["a"], ["b"], ["a", "b"]]
        self.members = [
            Member(self, f"m{number}", self.random.choice(wishes)) for number in range(self.random.randint(1, 4))
        ]

    def group(self) -> ShareGroup | None:
        found = self.stage.shard.groups.get("g")
        assert found is None or isinstance(found, ShareGroup)
        return found

    def initialize(self, wanted: ToInitialize) -> None:
        """As the shell does it."""
        share = self.stage.shard.members.share
        share.began_to_initialize("g", wanted.partitions)
        ready: dict[Uuid, frozenset[int]] = {}
        failed: set[Uuid] = set()
        for topic, partitions in wanted.partitions.items():
            for partition in partitions:
                try:
                    self.coordinator.initialize((topic, partition), wanted.epoch)
                    ready[topic] = ready.get(topic, frozenset()) | {partition}
                except KafkaError:
                    failed.add(topic)
        share.failed_to_initialize("g", failed)
        self.stage.run(lambda shard: shard.members.share.initialized("g", ready))

    def delete(self) -> None:
        try:
            promise = self.stage.run(lambda shard: shard.members.begin_deletion("g", None))
            if not promise.is_done:
                return
            for topic, partitions in promise.result().items():
                for partition in partitions:
                    self.coordinator.delete((topic, partition))
            deletion = self.stage.run(lambda shard: shard.delete_group("g"))
            if deletion.is_done and deletion.error is None:
                assert not self.coordinator.epochs, "states of a group that is gone are left"
        except KafkaError:
            pass

    def step(self) -> None:
        random, stage = self.random, self.stage
        member = random.choice(self.members)
        actions = ["step", "time", "crash", "leave", "delete", "fail", "lag", "coordinator", "restart", "grow"]
        match random.choices(actions, [60, 10, 2, 4, 6, 3, 5, 4, 2, 2])[0]:
            case "step":
                member.step()
            case "time":
                stage.pass_ms(random.choice([10, 1_000, 50_000]))
            case "crash":
                member.forget()
            case "leave":
                member.leave()
            case "delete":
                for each in self.members if random.random() < 0.5 else ():
                    each.leave()
                self.delete()
            case "fail":
                stage.failing = not stage.failing
            case "lag":
                stage.auto_commit = not stage.auto_commit
            case "coordinator":
                self.coordinator.fails_often = not self.coordinator.fails_often
            case "restart":
                self.restart()
            case "grow":
                name = random.choice(["a", "b"])
                grow(self.image, name, len(self.image.topics[name].partitions) + 1)
                stage.shard.topics_changed([name], created=False)
        if stage.auto_commit:
            stage.commit_log()
        self.check()

    def picture(self) -> Any:
        group = self.group()
        if group is None:
            return None
        tables = (group.members, group.targets, group.topics)
        return group.epochs, group.states, *(dict(each.items()) for each in tables)

    def restart(self) -> None:
        """Whatever was appended is there again, and nothing else."""
        self.stage.failing = False
        self.stage.flush()
        before = self.picture()
        self.stage.start()
        assert self.picture() == before

    def check(self) -> None:
        group = self.group()
        for topic, (_, partitions) in group.states.initialized.items() if group is not None else ():
            for partition in partitions:
                assert (topic, partition) in self.coordinator.epochs, "a partition without a state is assigned"

    def calm(self) -> None:
        self.stage.failing, self.stage.auto_commit, self.coordinator.fails_often = False, True, False
        self.stage.flush()
        self.stage.commit_log()
        for _ in range(80):
            for member in self.members:
                member.step()
            self.stage.pass_ms(1_000)
        wanted = {name for member in self.members for name in member.topics}
        expected = {(topic_id(name), index) for name in wanted for index in self.image.topics[name].partitions}
        assert {at for member in self.members for at in member.has} == expected, "partitions that nobody has"
        for member in self.members:
            member.leave()
        self.stage.pass_ms(100_000)
        self.delete()
        assert self.group() is None


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_each_partition_is_served_and_a_deleted_group_leaves_nothing_behind(seed: int) -> None:
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
    play.calm()
    play.restart()
