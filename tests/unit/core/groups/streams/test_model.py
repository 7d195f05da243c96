"""Threads, time, topics that come and grow, failing appends and restarts at random: what must hold whatever happens."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.core.groups.streams.member import MemberState
from barnabas.core.groups.streams.settings import StreamsSettings
from tests.unit.core.groups.consumer.consumers import cluster, grow
from tests.unit.core.groups.stage import Stage

from .applications import Thread, picture, word_count

STEPS = 200


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.image = cluster(lines=3)
        self.stage = Stage(cluster=self.image)
        self.replicas = self.random.choice([0, 0, 1, 2])
        self.stage.streams_settings = StreamsSettings(
            assignment_interval_ms=self.random.choice([0, 1_000]),
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
            session_timeout_ms=10_000,
            num_standby_replicas=self.replicas,
        )
        self.threads = [
            Thread(self.stage, f"t{number}", f"p{self.random.randint(0, 2)}", word_count())
            for number in range(self.random.randint(1, 5))
        ]

    def step(self) -> None:
        random, stage = self.random, self.stage
        thread = random.choice(self.threads)
        actions = ["step", "time", "crash", "leave", "fail", "lag", "restart", "topic"]
        match random.choices(actions, [70, 8, 2, 3, 3, 5, 2, 5])[0]:
            case "step":
                thread.step()
            case "time":
                stage.pass_ms(random.choice([10, 1_000, 4_000]))
            case "crash":
                thread.forget()
            case "leave":
                thread.leave()
            case "fail":
                stage.failing = not stage.failing
            case "lag":
                stage.auto_commit = not stage.auto_commit
            case "restart":
                self.restart()
            case "topic":
                self.create_topics()
        if stage.auto_commit:
            stage.commit_log()
        self.check()

    def create_topics(self) -> None:
        for name in ("words", "counts"):
            grow(self.image, name, len(self.image.topics["lines"].partitions))
        self.stage.shard.topics_changed(["words", "counts"], created=True)

    def restart(self) -> None:
        """Whatever was appended is there again, and nothing else."""
        self.stage.failing = False
        self.stage.flush()
        self.stage.commit_log()
        before = picture(self.stage)
        self.stage.start()
        assert picture(self.stage) == before

    def check(self) -> None:
        group = self.stage.shard.groups.get("g")
        if not isinstance(group, StreamsGroup):
            return
        timers = self.stage.shard.timers
        for member in group.members.values():
            assert timers.is_scheduled(("session", "g", member.id)), member
            if member.state is MemberState.UNREVOKED_TASKS:
                assert timers.is_scheduled(("rebalance", "g", member.id)), member
        active: Counter[tuple[str, int]] = Counter()
        by_process: Counter[tuple[str, str, int]] = Counter()
        for member in group.members.values():
            for tasks in (member.assigned, member.revoking):
                for name, each in tasks.active.items():
                    active.update((name, at) for at in each)
                    by_process.update((member.process_id, name, at) for at in each)
                for name, partitions in tasks.standby.items():
                    by_process.update((member.process_id, name, at) for at in partitions)
        assert all(count == 1 for count in active.values()), "two members have an active task"
        assert all(count == 1 for count in by_process.values()), "a process has a task twice"
        assert set(active) == set(group._active.keys())

    def calm(self) -> None:
        """With nothing going wrong any more, all tasks are dealt out, and standbys as far as there are processes."""
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.flush()
        self.create_topics()
        for _ in range(40):
            for thread in self.threads:
                thread.step()
            self.stage.pass_ms(1_000)
        assert picture(self.stage)["g"]["state"] == "Stable"
        tasks = [(name, at) for thread in self.threads for name, each in thread.active.items() for at in each]
        assert sorted(tasks) == [(name, at) for name in ("0", "1") for at in range(3)]
        standbys = [at for thread in self.threads for each in thread.standby.values() for at in each]
        processes = len({thread.process for thread in self.threads})
        assert sorted(standbys) == sorted([0, 1, 2] * min(self.replicas, processes - 1))


@pytest.mark.parametrize("seed", range(15))
def test_whatever_happens_no_task_has_two_owners(seed: int) -> None:
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
    play.calm()
    play.restart()
