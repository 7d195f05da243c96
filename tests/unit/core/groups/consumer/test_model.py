"""Consumers, time, topics that grow, failing appends and restarts at random: what must hold whatever happens."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import MemberState
from barnabas.core.groups.consumer.settings import ConsumerSettings
from tests.unit.core.groups.stage import Stage

from .consumers import Consumer, cluster, grow, picture

STEPS = 200


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.image = cluster(a=3, b=2)
        self.stage = Stage(cluster=self.image)
        self.stage.consumer_settings = ConsumerSettings(
            assignment_interval_ms=self.random.choice([0, 1_000]), session_timeout_ms=10_000
        )
        wishes = [["a"], ["b"], ["a", "b"]]
        self.consumers = [
            Consumer(
                self.stage, f"c{number}", self.random.choice(wishes), f"static-{number}" if number % 3 == 2 else None
            )
            for number in range(self.random.randint(1, 5))
        ]

    def step(self) -> None:
        random, stage = self.random, self.stage
        consumer = random.choice(self.consumers)
        actions = ["step", "time", "crash", "leave", "fail", "lag", "restart", "grow"]
        match random.choices(actions, [70, 8, 2, 3, 3, 5, 2, 2])[0]:
            case "step":
                consumer.step()
            case "time":
                stage.pass_ms(random.choice([10, 1_000, 4_000]))
            case "crash":
                consumer.forget()
            case "leave":
                consumer.leave()
            case "fail":
                stage.failing = not stage.failing
            case "lag":
                stage.auto_commit = not stage.auto_commit
            case "restart":
                self.restart()
            case "grow":
                name = random.choice(["a", "b"])
                grow(self.image, name, len(self.image.topics[name].partitions) + 1)
                stage.shard.topics_changed([name], created=False)
        if stage.auto_commit:
            stage.commit_log()
        self.check()

    def restart(self) -> None:
        """Whatever was appended is there again, and nothing else."""
        self.stage.failing = False
        self.stage.flush()
        before = picture(self.stage)
        self.stage.start()
        assert picture(self.stage) == before

    def check(self) -> None:
        group = self.stage.shard.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        held = Counter(
            (topic, partition)
            for member in group.members.values()
            for partitions in (member.assigned, member.revoking)
            for topic, each in partitions.items()
            for partition in each
        )
        assert all(count == 1 for count in held.values()), "two members have a partition"
        assert set(held) == set(group._held.keys())
        self.check_timers(group)
        for name, count in group.topics.items():
            assert count.by_name == sum(name in member.topics for member in group.members.values())

    def check_timers(self, group: ConsumerGroup) -> None:
        """Whoever falls silent, or gives nothing back, is removed."""
        timers = self.stage.shard.timers
        for member in group.members.values():
            if not member.is_classic:
                assert timers.is_scheduled(("session", "g", member.id)), member
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    assert timers.is_scheduled(("rebalance", "g", member.id)), member

    def calm(self) -> None:
        """With nothing going wrong any more, everything is dealt out."""
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.flush()
        # Whoever is silent is gone.
        for _ in range(40):
            for consumer in self.consumers:
                consumer.step()
            self.stage.pass_ms(1_000)
        group = self.stage.shard.groups.get("g")
        assert isinstance(group, ConsumerGroup)
        assert group.state_name == "Stable"
        wanted = {name for consumer in self.consumers for name in consumer.topics}
        expected = sum(len(self.image.topics[name].partitions) for name in wanted)
        assert sum(len(each.partitions) for consumer in self.consumers for each in consumer.owned) == expected


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_no_partition_has_two_owners(seed: int) -> None:
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
    play.calm()
    play.restart()
