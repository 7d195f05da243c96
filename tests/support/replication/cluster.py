"""Brokers with one replicated partition, a controller, clients and a network on one thread, in simulated time.

What decides is the real code: `Partition` with `core.replication` under it on each broker, and `core.controller` on the
controller, which never fails here (the quorum has a simulator of its own). Around it are a network that delays and
loses, disks that forget, and processes that are killed, hang or stop. All chance comes from one seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from barnabas.core.controller import isr, registration
from barnabas.core.controller.elections import elect_leaders
from barnabas.core.controller.liveness import Sessions, TopicRules, fence, heartbeat
from barnabas.core.metadata.records import SUPPORTED_FEATURES
from barnabas.core.metadata.state import MetadataDelta, MetadataImage, PartitionState
from barnabas.core.replication.decide import Reaction
from barnabas.core.replication.following import Step, next_step, resume
from barnabas.core.replication.state import Committed, LeaderState, Proposal
from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.partition import Partition, PartitionRead
from barnabas.node.broker.waiting import PendingAcknowledgement
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.batch import iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.fetch import FetchPartition
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid
from tests.support.replication.memory_log import MemoryLog, MemoryLogDirs, batch_of

CONTROLLER, CLIENT = 0, -1
TOPIC, TOPIC_ID = "orders", Uuid(b"orders----------")
CLUSTER_ID = "simulated"
MIN_IN_SYNC = 2
FEATURES = SUPPORTED_FEATURES
SESSION_MS, HEARTBEAT_MS, LAG_MS, WAIT_MS, TIMEOUT_MS = 3_000, 500, 2_000, 100, 800


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


class Controller:
    def __init__(self, cluster: Cluster, brokers: list[int], *, unclean: bool) -> None:
        self.cluster = cluster
        self.image = MetadataImage()
        self.log: list[Sequence[Record]] = []
        self.sessions = Sessions(SESSION_MS)
        self.rules = TopicRules(lambda topic: MIN_IN_SYNC, lambda topic: unclean)
        features = [wire.FeatureLevelRecord(name=name, feature_level=high) for name, (_, high) in FEATURES.items()]
        self.append(features)
        self.append(
            [
                wire.TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
                wire.PartitionRecord(
                    partition_id=0, topic_id=TOPIC_ID, replicas=brokers, isr=brokers, leader=-1, leader_epoch=0
                ),
            ]
        )

    @property
    def partition(self) -> PartitionState:
        return self.image.topics[TOPIC].partitions[0]

    def append(self, records: Sequence[Record]) -> None:
        if not records:
            return
        before = self.image.topics[TOPIC].partitions.get(0) if TOPIC in self.image.topics else None
        for record in records:
            self.image.replay(record)
            self.image.offset += 1
        self.log.append(records)
        if before is not None and before != self.partition:
            state = self.partition
            self.cluster.tell(
                f"controller: leader {state.leader} epoch {state.leader_epoch} isr {state.isr} "
                f"elr {state.eligible_leader_replicas}"
            )
            self.cluster.judges.committed_metadata(before, state)

    def decide(self, decide: Callable[[], Any]) -> Any:
        """The answer; a KafkaError is one too."""
        try:
            decision = decide()
        except KafkaError as error:
            return error
        self.append(list(decision.records))
        return decision.response

    def expire(self) -> None:
        for broker_id in self.sessions.expired(self.image, self.cluster.now_ms):
            self.cluster.tell(f"controller: {broker_id} is fenced")
            self.append(list(fence(self.image, self.image.brokers[broker_id], self.rules)))
        self.cluster.after(SESSION_MS // 8, self.expire)

    def elect_preferred(self) -> None:
        asked = ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])])
        self.append(list(elect_leaders(self.image, asked).records))


class SimulatedBroker:
    lag_max_ms = LAG_MS

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.log = MemoryLog(f"{TOPIC}-0 on {broker_id}", LogConfig(min_insync_replicas=MIN_IN_SYNC))
        self.directory_id = Uuid(b"directory-%06d" % broker_id)
        self.checkpoint = 0
        self.clean_epoch = -1
        self.lost_tail = False  # since it was in sync last
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.partition: Partition | None = None
        self._deferred: list[Callable[[], None]] = []

    # Life

    def start(self) -> None:
        assert not self.is_up
        self.life += 1
        self.is_up = True
        self.epoch, self.wants_shut_down = -1, False
        self.incarnation = Uuid(b"%016d" % (self.id * 1_000_000 + self.life))
        self.previous_epoch, self.clean_epoch = self.clean_epoch, -1
        self.image, self.position = MetadataImage(), 0
        self.partition = None
        self.log.reopen()
        self.cluster.tell(f"{self.id} starts with {self.log.log_end_offset} records")
        self.repeat(10, 60, self.learn)
        self.repeat(HEARTBEAT_MS // 2, HEARTBEAT_MS, self.beat)
        self.repeat(LAG_MS // 2, LAG_MS, self.shrink)
        self.repeat(200, 3_000, self.save)
        self.fetch_number = 0
        self.is_fetching = False

    def stop(self, *, power_lost: bool = False, clean: bool = False) -> None:
        if not self.is_up:
            return
        self.is_up = self.is_paused = False
        self._deferred.clear()
        self.life += 1
        self.partition = None
        if clean:
            self.log.flush()
            self.clean_epoch = self.epoch
        elif power_lost:
            self.lost_tail = self.log.lose_tail(self.cluster.random) or self.lost_tail
        how = "stops cleanly" if clean else "loses power" if power_lost else "is killed"
        self.cluster.tell(f"{self.id} {how} with {self.log.log_end_offset} records")

    def resume(self) -> None:
        self.is_paused = False
        deferred, self._deferred = self._deferred, []
        for work in deferred:
            work()

    def run(self, life: int, work: Callable[[], None]) -> None:
        """If the process is still the same; a process that hangs does it later."""
        if self.life != life or not self.is_up:
            return
        if self.is_paused:
            self._deferred.append(lambda: self.run(life, work))
        else:
            work()

    def repeat(self, least_ms: int, most_ms: int, work: Callable[[], None]) -> None:
        life = self.life

        def again() -> None:
            work()
            if self.is_up and self.life == life:
                self.cluster.after(self.cluster.random.randint(least_ms, most_ms), lambda: self.run(life, again))

        self.cluster.after(self.cluster.random.randint(0, least_ms), lambda: self.run(life, again))

    def ask_controller(self, decide: Callable[[], Any], answered: Callable[[Any], None]) -> None:
        life, cluster = self.life, self.cluster

        def arrive() -> None:
            answer = cluster.controller.decide(decide)
            cluster.send(CONTROLLER, self.id, lambda: self.run(life, lambda: answered(answer)))

        cluster.send(self.id, CONTROLLER, arrive)

    def beat(self) -> None:
        cluster = self.cluster
        controller = cluster.controller
        if self.epoch < 0:
            asked = BrokerRegistrationRequest(
                broker_id=self.id,
                cluster_id=CLUSTER_ID,
                incarnation_id=self.incarnation,
                log_dirs=[self.directory_id],
                previous_broker_epoch=self.previous_epoch,
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in FEATURES.items()
                ],
            )
            self.ask_controller(
                lambda: registration.register(
                    controller.image,
                    asked,
                    controller.sessions,
                    controller.rules,
                    cluster_id=CLUSTER_ID,
                    now_ms=cluster.now_ms,
                ),
                self.registered,
            )
            return
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.image.offset,
            want_shut_down=self.wants_shut_down,
        )
        self.ask_controller(
            lambda: heartbeat(controller.image, request, controller.sessions, controller.rules, cluster.now_ms),
            self.heard,
        )

    def registered(self, answer: Any) -> None:
        if not isinstance(answer, KafkaError):
            self.epoch = answer.broker_epoch

    def heard(self, answer: Any) -> None:
        if isinstance(answer, KafkaError) and answer.code is ErrorCode.STALE_BROKER_EPOCH:
            self.epoch = -1  # it registers again
        if not isinstance(answer, KafkaError) and answer.should_shut_down and self.wants_shut_down:
            self.stop(clean=True)

    # Metadata

    def learn(self) -> None:
        """Whatever the controller has committed meanwhile."""
        cluster = self.cluster
        if not cluster.passes(CONTROLLER, self.id):
            return
        delta = MetadataDelta()
        log = cluster.controller.log
        until = self.position + cluster.random.randint(1, 4)
        for records in log[self.position : until]:
            for record in records:
                self.image.replay(record, delta)
                self.image.offset += 1
        self.position = min(until, len(log))
        state = next(iter(delta.partitions), None)
        if self.partition is not None:
            if state is not None:
                self.partition.apply(state, cluster.now_ms)
        elif 0 <= self.epoch <= self.image.offset:  # else its own registration is not applied yet
            self.open()
        self.fetch()

    def open(self) -> None:
        topic = self.image.topics.get(TOPIC)
        if topic is None or 0 not in topic.partitions:
            return
        log: Any = self.log
        self.partition = Partition(
            self.id, topic.partitions[0], log, self.checkpoint, neighbours=self, now_ms=self.cluster.now_ms
        )

    def save(self) -> None:
        """Checkpoints and flushes."""
        if self.partition is not None:
            self.checkpoint = self.partition.high_watermark
        if self.cluster.random.random() < 0.1:
            self.log.flush()

    # The leader's side

    def eligible_epoch(self, topic: str, index: int, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return None
        return broker.epoch

    def registered_epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        controller, cluster = self.cluster.controller, self.cluster
        members = [BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in proposal.in_sync]
        data = PartitionData(
            partition_index=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=members,
        )
        request = AlterPartitionRequest(
            broker_id=self.id, broker_epoch=self.epoch, topics=[TopicData(topic_id=TOPIC_ID, partitions=[data])]
        )
        life = self.life

        def is_open() -> bool:
            replication = partition.replication
            return (
                partition is self.partition
                and isinstance(replication, LeaderState)
                and (replication.proposal is proposal)
            )

        def answered(answer: Any) -> None:
            if isinstance(answer, KafkaError):
                return
            told = answer.topics[0].partitions[0]
            if told.error_code:
                if partition.proposal_refused(proposal, ErrorCode(told.error_code)) is Reaction.RETRY:
                    again()
            elif told.leader_id == self.id:
                committed = Committed(told.leader_epoch, told.partition_epoch, (), tuple(told.isr))
                partition.proposal_accepted(committed, cluster.now_ms)

        def again() -> None:
            if is_open():
                self.ask_controller(lambda: isr.alter_partition(controller.image, request, controller.rules), answered)
                cluster.after(TIMEOUT_MS, lambda: self.run(life, again))

        again()

    def shrink(self) -> None:
        if self.partition is not None:
            self.partition.review_in_sync(self.cluster.now_ms)

    def answer_fetch(
        self, replica: int, broker_epoch: int, asked: FetchPartition, reply: Callable[[PartitionRead], None]
    ) -> None:
        """As the handler of Fetch: at once if there is anything to tell, else a little later."""
        partition, cluster = self.partition, self.cluster
        if partition is None:
            reply(PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        fetch = PartitionFetch(TOPIC, asked, from_replica=True)

        def read() -> PartitionRead:
            error = partition.replica_error(replica, broker_epoch, asked.current_leader_epoch)
            if error is not ErrorCode.NONE:
                return PartitionRead(error)
            return partition.read(fetch, 1 << 20, True, False)

        found = read()
        if not found.error_code and found.diverging_epoch is None:
            partition.fetched_by(replica, asked.fetch_offset, broker_epoch, cluster.now_ms)
        if found.error_code or found.diverging_epoch is not None or found.records:
            reply(found)
        else:
            life = self.life
            cluster.after(cluster.random.randint(1, WAIT_MS), lambda: self.run(life, lambda: reply(read())))

    # The follower's side

    def fetch(self) -> None:
        partition = self.partition
        if partition is None or partition.is_leader or partition.leader < 0 or self.is_fetching or self.epoch < 0:
            return
        cluster, leader = self.cluster, cluster_broker(self.cluster, partition.leader)
        self.is_fetching = True
        self.fetch_number += 1
        number, life = self.fetch_number, self.life
        offset, last_epoch = partition.fetch_position
        epoch, broker_epoch = partition.leader_epoch, self.epoch
        asked = FetchPartition(
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=cluster.random.choice([100, 1000, 1 << 20]),
        )

        def over() -> None:
            if self.fetch_number == number:
                self.is_fetching = False

        def answered(found: PartitionRead) -> None:
            if self.fetch_number != number or partition is not self.partition:
                return
            over()
            self.take(partition, epoch, offset, found)
            if not found.error_code:
                self.fetch()

        def reply(found: PartitionRead) -> None:
            cluster.send(leader.id, self.id, lambda: self.run(life, lambda: answered(found)))

        def arrive() -> None:
            life_there = leader.life
            leader.run(life_there, lambda: leader.answer_fetch(self.id, broker_epoch, asked, reply))

        cluster.send(self.id, leader.id, arrive)
        cluster.after(TIMEOUT_MS, lambda: self.run(life, over))

    def take(self, partition: Partition, epoch: int, offset: int, found: PartitionRead) -> None:
        is_current = partition.follows_in(epoch) and self.log.log_end_offset == offset
        diverging = found.diverging_epoch or (-1, -1)
        step = next_step(found.error_code, diverging[0], epoch, epoch if is_current else epoch + 1)
        log_dirs: Any = MemoryLogDirs()
        now_ms = self.cluster.now_ms
        try:
            if step is Step.APPEND:
                records: Any = found.records
                partition.append_as_follower(records, epoch, found.high_watermark, now_ms)
            elif step is Step.TRUNCATE:
                before = self.log.log_end_offset
                end = at_once(partition.truncate_as_follower(epoch, diverging, log_dirs, now_ms))
                if end < before:
                    self.cluster.tell(f"{self.id} cuts its log from {before} to {end}, following epoch {epoch}")
            elif step is Step.FIND_RANGE:
                leader = cluster_broker(self.cluster, partition.leader)
                if leader.partition is not None and leader.partition.is_leader:
                    at = resume(0, leader.log.log_end_offset, self.log.log_end_offset)
                    at_once(partition.resume_as_follower(epoch, at, log_dirs, now_ms))
        except KafkaError as error:
            self.cluster.tell(f"{self.id} could not take an answer: {error.code.name}")


def cluster_broker(cluster: Cluster, broker_id: int) -> SimulatedBroker:
    return cluster.brokers[broker_id]


class _Acknowledging:
    """Stands for a produce that waits."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.decided = then


class Cluster:
    def __init__(self, seed: int, judges: Any, *, brokers: int = 3, unclean: bool = False) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000
        self.judges = judges
        judges.cluster = self
        self.loss = 0.0
        self.slow = 0.0
        self.cut: set[tuple[int, int]] = set()
        self.transcript: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        ids = list(range(1, brokers + 1))
        self.random.shuffle(ids)
        self.brokers = {each: SimulatedBroker(self, each) for each in sorted(ids)}
        self.controller = Controller(self, ids, unclean=unclean)
        self.controller.expire()
        self.next_value = 1

    # Time and messages

    def tell(self, line: str) -> None:
        self.transcript.append(f"{self.now_ms - 1_000_000:7d} {line}")

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, work))

    def run_until(self, at_ms: int) -> None:
        while self._events and self._events[0][0] <= at_ms:
            self.now_ms, _, work = heapq.heappop(self._events)
            work()
        self.now_ms = at_ms

    def passes(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut and self.random.random() >= self.loss

    def send(self, source: int, target: int, arrive: Callable[[], None]) -> None:
        if not self.passes(source, target):
            return
        delay_ms = self.random.randint(1, 8)
        if self.random.random() < self.slow:
            delay_ms = self.random.randint(100, 4_000)
        self.after(delay_ms, arrive)

    # Clients

    def produce(self) -> None:
        """To whom some broker takes for the leader; the outcome may never be known."""
        value, self.next_value = self.next_value, self.next_value + 1
        target = self._believed_leader()
        if target is not None:
            self.send(CLIENT, target.id, lambda: target.run(target.life, lambda: self._append(target, value)))

    def _append(self, broker: SimulatedBroker, value: int) -> None:
        partition = broker.partition
        if partition is None:
            return
        epoch = partition.leader_epoch
        try:
            appended = partition.append(batch_of(value), -1, self.now_ms)
        except KafkaError:
            return
        pending: PendingAcknowledgement

        def decided() -> None:
            if pending.error is ErrorCode.NONE:
                self.send(broker.id, CLIENT, lambda: self.judges.acknowledged(value, appended.last_offset))
                self.judges.promised(broker, value, appended.last_offset)

        waiting: Any = _Acknowledging(decided)
        pending = PendingAcknowledgement(waiting, partition, epoch, appended.last_offset + 1)
        pending.look()

    def consume(self) -> None:
        target = self._believed_leader()
        if target is None or target.partition is None or target.is_paused:
            return
        offset = self.judges.read_from(self.random)
        found = target.partition.read(
            PartitionFetch(TOPIC, FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)),
            1 << 20,
            True,
            False,
        )
        records: Any = found.records
        if not found.error_code and records:
            for _, header in iterate_batches(memoryview(records)):
                self.judges.read(target, header.base_offset, header.producer_id)

    def _believed_leader(self) -> SimulatedBroker | None:
        up = [each for each in self.brokers.values() if each.is_up and each.partition is not None]
        if not up:
            return None
        asked = self.random.choice(up)
        assert asked.partition is not None
        leader = asked.partition.leader
        return self.brokers.get(leader) if leader in self.brokers and self.brokers[leader].is_up else None
