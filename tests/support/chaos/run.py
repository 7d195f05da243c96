"""One run: a cluster, its clients, faults until the time is over, then peace, a last look, and the judge's word."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from barnabas.client.errors import ClientError
from barnabas.testing import Cluster
from barnabas.wire.batch import read_header
from barnabas.wire.errors import ErrorCode
from barnabas.wire.errors import KafkaError as KafkaProtocolError
from tests.support.chaos.clients import QUICK, Client, Copier, Reader, TransactionalWriter, Writer
from tests.support.chaos.faults import Fault, Faults, draw
from tests.support.chaos.history import CommittedOffset, History, Outcome, Partition, Promise
from tests.support.chaos.judge import Anomaly, judge, written_again
from tests.support.replication.watching import batches, describe

PARTITIONS = 3
PLAIN, IN_ORDER, ATOMIC, COPIED = "plain", "in-order", "atomic", "copied"
TOPICS = {
    PLAIN: Promise(once=False, in_order=False),
    IN_ORDER: Promise(),
    ATOMIC: Promise(),
    COPIED: Promise(),
}
GROUP = "readers"
ONE_IN_FLIGHT = {"max.in.flight.requests.per.connection": 1}
LIMIT_S = 60.0
SHOWN_MAX = 8
CONFIG: dict[str, object] = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "leader.imbalance.check.interval.seconds": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
    "log.segment.bytes": 1 << 20,  # the least that Apache Kafka takes
    "group.initial.rebalance.delay.ms": 0,
}


@dataclass
class Report:
    seed: int
    faults: list[str] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    recoveries_s: list[float] = field(default_factory=list)

    def text(self) -> str:
        figures = ", ".join(f"{name} {count}" for name, count in self.figures.items())
        back = sorted(self.recoveries_s)
        slowest = (
            f"; service was back after {back[len(back) // 2]:.1f} s (median), {back[-1]:.1f} s at most" if back else ""
        )
        lines = [f"seed {self.seed}: {len(self.faults)} faults, {len(self.anomalies)} anomalies{slowest}", figures]
        kinds: dict[str, list[str]] = {}
        for each in self.anomalies:
            kinds.setdefault(each.kind, []).append(each.what)
        for kind, found in kinds.items():
            lines.append(f"ANOMALY {kind}, {len(found)} times:")
            lines += [f"    {what}" for what in found[:SHOWN_MAX]]
        return "\n".join([*lines[:2], *self.faults, *lines[2:]])


class Run:
    once: Mapping[str, Any] = {"enable.idempotence": True, "message.timeout.ms": 600_000}

    def __init__(
        self,
        seed: int,
        seconds: float,
        *,
        kinds: list[str] | None = None,
        tell: Callable[[str], None] = lambda line: None,
        limit_s: float = LIMIT_S,
    ) -> None:
        """`limit_s`: what does not come within it is an anomaly; a busy machine needs more."""
        self.history = History(promises=dict(TOPICS), copies=[(IN_ORDER, COPIED)], several_in_flight={"idempotent-1"})
        self.report = Report(seed)
        self._seconds = seconds
        self._kinds = kinds
        self._tell = tell
        self._limit_s = limit_s
        self._random = random.Random(seed)

    def __call__(self, cluster: Cluster) -> Report:
        for topic in TOPICS:
            self._create(cluster, topic)
        clients = self._clients(cluster.bootstrap_servers)
        try:
            for client in clients:
                client.start()
            self.wait_for(partial(self.is_served_since, 0.0), "no service at the start")
            self.wait_for(self._has_begun, "no transaction was committed, or nothing read by the group, at the start")
            self.shake(cluster)
            self._settle(cluster, clients)
            self._look(cluster)
        finally:
            for client in clients:
                client.enough.set()
        self.report.anomalies += judge(self.history)
        self._count(cluster)
        return self.report

    def _create(self, cluster: Cluster, topic: str) -> None:
        """A busy broker may be out of service for a moment, and a topic needs all three."""
        deadline = time.monotonic() + self._limit_s
        while True:
            try:
                return cluster.create_topic(topic, PARTITIONS, 3)
            except KafkaProtocolError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    return None
                if error.code is not ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _has_begun(self) -> bool:
        """Else a short run on a slow machine would be over before all of its clients have done anything."""
        committed = any(each.outcome is Outcome.COMMITTED for each in list(self.history.transactions.values()))
        return committed and bool(self.history.seen)

    def _clients(self, servers: str) -> list[Client]:
        seed, history = self.report.seed, self.history
        return [
            Writer("plain-1", servers, history, seed, PLAIN, PARTITIONS, **{"message.timeout.ms": 8000}),
            Writer("idempotent-1", servers, history, seed, IN_ORDER, PARTITIONS, **self.once),
            Writer("idempotent-2", servers, history, seed, IN_ORDER, PARTITIONS, **{**self.once, **ONE_IN_FLIGHT}),
            TransactionalWriter("transactional-1", servers, history, seed, ATOMIC, PARTITIONS),
            TransactionalWriter("transactional-2", servers, history, seed, ATOMIC, PARTITIONS),
            Copier("copier", servers, history, seed, IN_ORDER, COPIED),
            Reader("reader-1", servers, history, seed, GROUP, [PLAIN, IN_ORDER, ATOMIC]),
            Reader("reader-2", servers, history, seed, GROUP, [PLAIN, IN_ORDER, ATOMIC]),
        ]

    # While it is shaken.

    def shake(self, cluster: Cluster) -> None:
        faults = Faults(cluster, self._random, IN_ORDER, PARTITIONS)
        started = time.monotonic()
        while time.monotonic() < started + self._seconds:
            fault = draw(self._random, self._kinds)
            at = time.monotonic()
            target = faults.do(fault)
            over = time.monotonic()
            self._check_alive(cluster)
            self.wait_for(partial(self.is_served_since, at), f"no service after {fault.kind}")
            back = max(self._served_since(at).values(), default=time.monotonic())
            self._note(fault, target, at - started, over - at, back - at, back - over)
            if self._random.random() < 0.7:
                self.wait_for(lambda: self._is_in_sync(cluster), f"not in sync after {fault.kind}")
            time.sleep(self._random.uniform(0.2, 2))

    def _note(self, fault: Fault, target: str, at: float, lasted: float, back: float, after: float) -> None:
        how = f"back {back:.1f} s after its begin" + (f", {after:.1f} s after its end" if after > 0 else "")
        line = f"{at:7.1f} s  {fault.kind} {target} for {lasted:.1f} s: {how}"
        self.report.faults.append(line)
        self.report.recoveries_s.append(back)
        self._tell(line)

    def is_served_since(self, at: float) -> bool:
        return len(self._served_since(at)) == PARTITIONS

    def _served_since(self, at: float) -> dict[Partition, float]:
        """Of each partition that has acknowledged something sent since then: when that was first."""
        found: dict[Partition, float] = {}
        with self.history.lock:
            sends = self.history.sends
            for index in range(len(sends) - 1, -1, -1):
                send = sends[index]
                if send.sent_at < at:
                    break
                if send.partition[0] == IN_ORDER and send.acknowledged_at is not None:
                    found[send.partition] = min(found.get(send.partition, send.acknowledged_at), send.acknowledged_at)
        return found

    def _check_alive(self, cluster: Cluster) -> None:
        for node_id, node in cluster.nodes.items():
            if not node.running:
                self.report.anomalies.append(Anomaly("crash", f"node {node_id} has ended: {node.log()[-1500:]}"))
                cluster.start(node_id)

    def _is_in_sync(self, cluster: Cluster) -> bool:
        try:
            states = [each for topic in TOPICS for each in describe(cluster, topic).values()]
        except (ClientError, KafkaProtocolError, OSError, StopIteration, IndexError):
            return False
        return all(sorted(each.in_sync) == sorted(cluster.broker_ids) and each.leader >= 0 for each in states)

    def wait_for(self, condition: Callable[[], bool], problem: str) -> None:
        """What does not come is an anomaly, and the run goes on."""
        deadline = time.monotonic() + self._limit_s
        while not condition():
            if time.monotonic() > deadline:
                self.report.anomalies.append(Anomaly("liveness", f"{problem} for {self._limit_s:g} s"))
                self._tell(f"          {problem} for {self._limit_s:g} s")
                return
            time.sleep(0.1)

    # Afterwards.

    def _settle(self, cluster: Cluster, clients: list[Client]) -> None:
        cluster.heal()
        self.wait_for(lambda: self._is_in_sync(cluster), "not in sync in the end")
        copiers = [each for each in clients if isinstance(each, Copier)]
        for client in clients:
            client.enough.set()
        for client in clients:
            if client not in copiers:
                self._end(client)
        self.wait_for(lambda: self._is_settled(cluster), "open transactions")
        for copier in copiers:
            self.wait_for(partial(self._tell_ends, cluster, copier), "the ends of a topic are not told")
            self._end(copier)
        self.wait_for(lambda: self._is_settled(cluster), "open transactions")

    def _end(self, client: Client) -> None:
        try:
            client.end()
        except AssertionError as error:
            self.report.anomalies.append(Anomaly("liveness", str(error)))

    def _tell_ends(self, cluster: Cluster, copier: Copier) -> bool:
        try:
            copier.ends = {index: self._end_offset(cluster, (IN_ORDER, index)) for index in range(PARTITIONS)}
        except KafkaException:
            return False
        return True

    def _end_offset(self, cluster: Cluster, partition: Partition, level: str = "read_committed") -> int:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "looks", "isolation.level": level}
        consumer = Consumer(settings | QUICK)
        try:
            ends: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(*partition), 10)
            return ends[1]
        finally:
            consumer.close()

    def _is_settled(self, cluster: Cluster) -> bool:
        """Nothing of a transaction is open: the last stable offset is the end."""
        try:
            return all(
                self._end_offset(cluster, (topic, index))
                == self._end_offset(cluster, (topic, index), "read_uncommitted")
                for topic in TOPICS
                for index in range(PARTITIONS)
            )
        except KafkaException:
            return False

    def _look(self, cluster: Cluster) -> None:
        """With new clients, from the beginning."""
        for topic in TOPICS:
            self.history.log |= read(cluster.bootstrap_servers, topic, "read_committed", self._limit_s)
            self.history.raw |= read(cluster.bootstrap_servers, topic, "read_uncommitted", self._limit_s)
        self.wait_for(lambda: self._look_at_offsets(cluster), "the offsets of the group are not told")
        self.wait_for(lambda: self._logs_are_equal(cluster), "the replicas' logs differ")
        self._note_writers(cluster)
        for node_id, node in cluster.nodes.items():
            if "Traceback" in (said := node.log()):
                at = said.index("Traceback")
                told = said[max(at - 300, 0) : at + 2500]
                self.report.anomalies.append(Anomaly("traceback", f"node {node_id}: {told}"))

    def _look_at_offsets(self, cluster: Cluster) -> bool:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, **QUICK})
        wanted = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        try:
            for each in consumer.committed(wanted, 10):
                if each.offset >= 0:
                    partition = (each.topic, each.partition)
                    self.history.tell_committed(CommittedOffset(GROUP, partition, each.offset, time.monotonic()))
        except KafkaException:
            return False
        finally:
            consumer.close()
        return True

    def _note_writers(self, cluster: Cluster) -> None:
        """Of what is at several places."""
        for partition, records in self.history.raw.items():
            counts = Counter(records.values())
            offsets = [offset for offset, value in records.items() if counts[value] > 1]
            if not offsets:
                continue
            log = batches(Path(cluster.nodes[cluster.broker_ids[0]].data_dir) / f"{partition[0]}-{partition[1]}")
            for header in (read_header(batch) for batch in log.values()):
                for offset in offsets:
                    if header.base_offset <= offset <= header.last_offset:
                        self.history.written_by[partition, offset] = (header.producer_id, header.producer_epoch)

    def _logs_are_equal(self, cluster: Cluster) -> bool:
        names = [f"{topic}-{index}" for topic in TOPICS for index in range(PARTITIONS)]
        for name in names:
            logs = [batches(Path(cluster.nodes[each].data_dir) / name) for each in cluster.broker_ids]
            if any(log != logs[0] for log in logs):
                return False
        return True

    def _count(self, cluster: Cluster) -> None:
        history = self.history
        ends = [each.outcome.value for each in history.transactions.values()]
        self.report.figures = {
            "sent": len(history.sends),
            "acknowledged": sum(each.acknowledged_at is not None for each in history.sends),
            "transactions committed": ends.count("committed"),
            "aborted": ends.count("aborted"),
            "unknown": ends.count("unknown"),
            "written again by librdkafka": len(written_again(history)),
            "read by the group": len(history.seen),
            "offsets committed": len(history.committed),
            "there in the end": sum(map(len, history.log.values())),
        }


def read(servers: str, topic: str, level: str, limit_s: float = LIMIT_S) -> dict[Partition, dict[int, bytes]]:
    """Every record of a topic, by partition and offset, to the end as it is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "last-look",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": level,
            "enable.partition.eof": True,
            "check.crcs": True,
            **QUICK,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: dict[Partition, dict[int, bytes]] = {(topic, index): {} for index in range(PARTITIONS)}
    ended: set[int] = set()
    errors: set[str] = set()
    deadline = time.monotonic() + limit_s
    try:
        while len(ended) < PARTITIONS:
            if time.monotonic() > deadline:
                read = {index: max(records, default=-1) for (_, index), records in found.items()}
                raise AssertionError(f"{topic} cannot be read to its end ({level}): {read}, ended {ended}, {errors}")
            for message in consumer.consume(1000, 0.5):
                if message.error() is None:
                    found[topic, message.partition()][message.offset()] = message.value()
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    errors.add(str(message.error()))
    finally:
        consumer.close()
    return found
