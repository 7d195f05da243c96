"""One seed, several lives of the metadata of a cluster on a disk that forgets; `MetadataStory(seed, directory).run()`.

Each life formats or opens the directory with the node's own code, becomes the leader of a new epoch, creates and
deletes topics, rolls and snapshots, until the power goes or the node stops. After each start the image must be the one
after some number of the decisions taken so far, all that were answered included, and the cluster must be the same one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.active import not_controller
from barnabas.node.metadata.snapshotting import SnapshotPolicy
from barnabas.node.quorum_member import QuorumMember
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.format import claim_directories
from barnabas.node.raft.load import load_metadata
from barnabas.node.raft.log import MetadataLogConfig
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.wire.errors import KafkaError
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid
from tests.support.simulated_disk_story import Story
from tests.support.simulated_disk_threads import SimulatedThreads

NOW_MS = 1_700_000_000_000
LIVES_MAX = 4
TOPICS_MAX = 12
BROKER = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
CONTROLLER = Endpoint("CONTROLLER", "127.0.0.1", 9093)

State = dict[str, Uuid]  # topics by name


@dataclass(slots=True)
class Decisions:
    """What was decided, in order: the state after each, and how many of them were answered."""

    states: list[State] = field(default_factory=lambda: [{}])
    answered: int = 0

    def check(self, image: MetadataImage) -> None:
        found: State = {name: topic.topic_id for name, topic in image.topics.items()}
        candidates = [number for number in range(self.answered, len(self.states)) if self.states[number] == found]
        assert candidates, f"the image has {sorted(found)}, expected {sorted(self.states[self.answered])} or later"
        self.states = [found]
        self.answered = 0


class MetadataStory(Story):
    lives_max = LIVES_MAX
    crash_after = (30, 100, 300)
    failures = (KafkaError, OSError, StartError)

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        self.decisions = Decisions()
        self.cluster_id = ""
        self.epoch = 0
        self.now_ms = NOW_MS
        self.made = 0

    async def _life(self, path: Path, threads: SimulatedThreads, check_only: bool) -> None:
        log_dir = LogDir(str(path), handles=FileHandles())
        member = self._open(log_dir, threads)
        self.decisions.check(member.loader.image)
        log_dir.begin()
        await member.start()
        broker = BrokerLife(self._registration(member.raft.directory_id), member.channel)
        await broker.register()
        member.snapshotting.start()
        assert member.raft.epoch > self.epoch, f"epoch {member.raft.epoch} was given before"
        self.epoch = member.raft.epoch
        if not check_only:
            await self._decide(member)
        await broker.leave()
        await member.stop()
        await log_dir.close(clean=member.raft.failure is None)

    def _registration(self, directory_id: Uuid) -> Registration:
        return Registration(
            node_id=1,
            cluster_id=self.cluster_id,
            incarnation_id=Uuid(self.random.randbytes(16)),
            broker_endpoints=[BROKER],
            controller_endpoints=[CONTROLLER],
            log_dirs=[directory_id],
        )

    def _open(self, log_dir: LogDir, threads: SimulatedThreads) -> QuorumMember:
        cluster_id = claim_directories(
            [log_dir], log_dir, node_id=1, cluster_id=None, controller_endpoints=[CONTROLLER], now_ms=self.now_ms
        )
        assert self.cluster_id in ("", cluster_id), f"cluster {self.cluster_id} has become {cluster_id}"
        self.cluster_id = cluster_id
        assert log_dir.directory_id is not None
        return QuorumMember(
            load_metadata(Path(log_dir.path), node_id=1, directory_id=log_dir.directory_id),
            threads.executor(),
            node_id=1,
            cluster_id=cluster_id,
            directory_id=log_dir.directory_id,
            endpoints=[CONTROLLER],
            topic_configs=TopicConfigs(BrokerConfig.from_properties({})),
            clock=lambda: self.now_ms,
            on_fault=self._fail,
            log_config=MetadataLogConfig(segment_bytes=self.random.choice((16_000, 1 << 20))),
            snapshots=SnapshotPolicy(max_bytes_between=self.random.choice((400, 2000, 1 << 20)), max_interval_ms=0),
        )

    def _fail(self, why: str) -> None:
        """The log cannot be written: whoever has decided something is told, and the life ends by itself."""

    async def _decide(self, member: QuorumMember) -> None:
        waiting: set[asyncio.Task[None]] = set()
        for _ in range(self.random.choice((3, 15, 50))):
            self.now_ms += self.random.randint(0, 100)
            waiting.add(asyncio.get_running_loop().create_task(self._submit(member)))
            for _ in range(self.random.choice((0, 1, 20))):
                await asyncio.sleep(0)
            if self.random.random() < 0.3:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)

    async def _submit(self, member: QuorumMember) -> None:
        number = 0

        def decide(image: MetadataImage) -> ControllerDecision[None]:
            nonlocal number
            state = {name: topic.topic_id for name, topic in image.topics.items()}
            records = self._change(state)
            self.decisions.states.append(state)
            number = len(self.decisions.states) - 1
            return ControllerDecision(records, None)

        active = member.controller.active
        if active is None:
            raise not_controller()
        await active.decide(decide)
        self.decisions.answered = max(self.decisions.answered, number)

    def _change(self, state: State) -> list[Record]:
        if state and self.random.random() < len(state) / TOPICS_MAX:
            name = self.random.choice(sorted(state))
            return [wire.RemoveTopicRecord(topic_id=state.pop(name))]
        self.made += 1
        name = f"topic{self.made}" + "x" * self.random.choice((0, 100))
        state[name] = topic_id = Uuid(self.random.randbytes(16))
        partition = wire.PartitionRecord(topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        return [wire.TopicRecord(name=name, topic_id=topic_id), partition]
