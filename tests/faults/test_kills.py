"""`kill -9` at moments that nobody has chosen, under load: what was acknowledged is there, in order, and not twice.

Idempotent and transactional producers write, segments roll, old ones are deleted, others compacted, topics come and go,
while the node is killed again and again, also while it starts. Five kills; `make soak` makes 500, in rounds of a
hundred. BARNABAS_NODE_KILLS=100 makes so many, BARNABAS_SEED repeats the moments of a run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from abc import abstractmethod
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from barnabas.client.errors import ClientError
from barnabas.testing import Node
from barnabas.testing.process import StartFailed
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest

KILLS = int(os.environ.get("BARNABAS_NODE_KILLS", "5"))
ROUND = 100
LIMIT_S = 120
PARTITIONS = 2
KEYS = 50
CONFIG = {
    "log.initial.task.delay.ms": 50,
    "log.retention.check.interval.ms": 150,
    "log.cleaner.backoff.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 200,
    "replica.high.watermark.checkpoint.interval.ms": 200,
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "metadata.log.max.record.bytes.between.snapshots": 20_000,
}
TOPICS = {
    "plain": {"segment.bytes": 100_000},
    "flushed": {"segment.bytes": 100_000, "flush.messages": 1},
    "retained": {"segment.bytes": 30_000, "retention.bytes": 90_000, "file.delete.delay.ms": 20},
    "compacted": {
        "segment.bytes": 30_000,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0.01,
        "file.delete.delay.ms": 20,
    },
    "transactional": {"segment.bytes": 60_000},
}
PATIENT = {
    "linger.ms": 2,
    "batch.size": 10_000,
    "log_level": 2,
    "delivery.timeout.ms": 600_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 10_000,
}


class Worker(threading.Thread):
    """Does something again and again until it is told to stop."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.enough.wait(0.005):
                self.work()
            self.finish()
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.enough.set()
        self.join(2 * LIMIT_S)
        assert not self.is_alive(), f"{self} does not end"
        if self.failure is not None:
            raise self.failure

    @abstractmethod
    def work(self) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...


class Writer(Worker):
    """Numbers, in order per partition; each is sent once by an idempotent producer."""

    def __init__(self, node: Node, topic: str, *, keyed: bool = False) -> None:
        super().__init__(node)
        self.topic = topic
        self.keyed = keyed
        self.written = 0
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self._producer = Producer({"bootstrap.servers": node.bootstrap_servers, "enable.idempotence": True, **PATIENT})

    def work(self) -> None:
        for _ in range(10):
            if len(self._producer) > 2000:
                break
            number = self.written
            self.written += 1
            self._producer.produce(
                self.topic,
                b"%d " % number + b"." * 100,
                key=b"%d" % (number % KEYS) if self.keyed else None,
                partition=number % PARTITIONS,
                on_delivery=lambda error, message, number=number: self._delivered(error, message, number),
            )
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message, number: int) -> None:
        if error is not None:
            self.failure = AssertionError(f"{number} was not delivered: {error}")
        else:
            self.acknowledged[number] = (message.partition(), message.offset())

    def finish(self) -> None:
        assert self._producer.flush(LIMIT_S) == 0, "not everything was delivered"


class TransactionalWriter(Worker):
    """Transactions of three records; every third is aborted. What happened to one is known, or is not."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.count = 0
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self._producer: Producer | None = None

    def work(self) -> None:
        try:
            if self._producer is None:
                settings = {"bootstrap.servers": self.node.bootstrap_servers, "transactional.id": "kills", **PATIENT}
                self._producer = Producer({**settings, "transaction.timeout.ms": 60_000, "delivery.timeout.ms": 50_000})
                self._producer.init_transactions(LIMIT_S)
            number = self.count
            self.count += 1
            self._producer.begin_transaction()
            for part in range(3):
                self._producer.produce("transactional", f"{number} {part}", partition=number % PARTITIONS)
            self._end(number, abort=number % 3 == 2)
        except KafkaException:
            self._producer = None  # another one, which fences this one; what became of the transaction is not known

    def _end(self, number: int, *, abort: bool) -> None:
        assert self._producer is not None
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if not self.enough.is_set():  # as long as the node is killed again and again, it may take any time
                deadline = time.monotonic() + LIMIT_S
            try:
                if abort:
                    self._producer.abort_transaction(5)
                    self.aborted.append(number)
                else:
                    self._producer.commit_transaction(5)
                    self.committed.append(number)
                return
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    abort = True
                elif not error.args[0].retriable():
                    raise
        raise AssertionError(f"transaction {number} does not end")

    def finish(self) -> None:
        self._producer = None


class TopicChurn(Worker):
    """Topics are made and deleted; where the answer did not come, either may be."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.made = 0
        self.exist: set[str] = set()
        self.gone: set[str] = set()

    def work(self) -> None:
        try:
            with self.node.connect() as connection:
                for _ in range(20):
                    if self.enough.is_set():
                        return
                    self.made += 1
                    name = f"churn-{self.made}"
                    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                    [made] = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
                    if made.error_code == 0:
                        self.exist.add(name)
                    if self.exist and self.made % 2:
                        doomed = sorted(self.exist)[0]
                        self.exist.discard(doomed)  # from now on nobody knows
                        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=doomed)], timeout_ms=5000)
                        [deleted] = connection.request(request, 6).responses
                        if deleted.error_code == 0:
                            self.gone.add(doomed)
                    time.sleep(0.01)
        except ClientError:
            time.sleep(0.02)

    def finish(self) -> None:
        pass

    def check(self) -> None:
        with self.node.connect() as connection:
            found = {each.name for each in connection.request(MetadataRequest(topics=None), 12).topics}
        assert not self.exist - found, "topics that were made are gone"
        assert not self.gone & found, "topics that were deleted are back"


def read(node: Node, topic: str, *, committed: bool = False) -> dict[int, dict[int, bytes]]:
    """Everything from the start to the end, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    starts = [consumer.get_watermark_offsets(TopicPartition(topic, index), 30)[0] for index in range(PARTITIONS)]
    consumer.assign([TopicPartition(topic, index, starts[index]) for index in range(PARTITIONS)])
    found: dict[int, dict[int, bytes]] = {index: {} for index in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is None:
                found[message.partition()][message.offset()] = message.value()
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    consumer.close()
    return found


def number_of(value: bytes) -> int:
    return int(value.split()[0])


def check_all_there(node: Node, writer: Writer) -> None:
    found = read(node, writer.topic)
    for index, records in found.items():
        numbers = [number_of(value) for _, value in sorted(records.items())]
        assert numbers == list(range(index, writer.written, PARTITIONS)), f"{writer.topic}-{index}"
    for number, (index, offset) in writer.acknowledged.items():
        assert number_of(found[index][offset]) == number


def check_retained(node: Node, writer: Writer) -> None:
    for index, records in read(node, writer.topic).items():
        numbers = [number_of(value) for _, value in sorted(records.items())]
        assert numbers, f"nothing is left of {writer.topic}-{index}"
        assert numbers == list(range(numbers[0], writer.written, PARTITIONS)), f"{writer.topic}-{index}"


def check_compacted(node: Node, writer: Writer) -> None:
    last: dict[int, int] = {}
    for index, records in read(node, writer.topic).items():
        numbers = [number_of(value) for _, value in sorted(records.items())]
        assert numbers == sorted(set(numbers)), f"{writer.topic}-{index} is not in order"
        last |= {number % KEYS: number for number in numbers}
    expected = {number % KEYS: number for number in range(writer.written)}
    assert last == expected, "the last record of a key is gone"


def check_transactions(node: Node, writer: TransactionalWriter) -> None:
    parts: dict[int, list[int]] = defaultdict(list)
    for index, records in read(node, "transactional", committed=True).items():
        order = [number_of(value) for _, value in sorted(records.items())]
        assert order == sorted(order), f"transactional-{index} is not in order"
        for _, value in sorted(records.items()):
            number, part = map(int, value.split())
            parts[number].append(part)
    assert all(found == [0, 1, 2] for found in parts.values()), "a transaction is there in part, or twice"
    assert not set(writer.committed) - set(parts), "committed transactions are gone"
    assert not set(writer.aborted) & set(parts), "aborted transactions are read"


def kill_and_start(node: Node, chance: random.Random) -> int:
    """One kill, or two if the second comes while the node starts."""
    node.kill()
    kills = 1
    if chance.random() < 0.2:
        killer = threading.Timer(chance.uniform(0.05, 0.5), lambda: kill_starting(node))
        killer.start()
        try:
            node.start()
            killer.cancel()
        except StartFailed:
            kills += 1
            killer.join()
            node.start()
        killer.join()
        if not node.running:
            kills += 1
            node.start()
        return kills
    node.start()
    return kills


def kill_starting(node: Node) -> None:
    """The process that is being started is the only child that runs the node's command on its port."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"log.dirs={node.data_dir}".encode() in path.read_bytes():
                os.kill(int(path.parent.name), 9)
        except (OSError, ValueError):
            pass


@pytest.mark.timeout(180 + 6 * KILLS)
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path) -> None:
    seed = int(os.environ.get("BARNABAS_SEED", random.randrange(1 << 30)))
    print(f"BARNABAS_SEED={seed}")
    chance = random.Random(seed)
    left, number = KILLS, 0
    while left > 0:
        number += 1
        kills = one_round(tmp_path / f"round-{number}", min(left, ROUND), chance)
        left -= kills


def one_round(root: Path, kills: int, chance: random.Random) -> int:
    with Node(CONFIG, data_dir=root) as node:
        for topic, config in TOPICS.items():
            node.create_topic(topic, PARTITIONS, config)
        plain, flushed, retained = (Writer(node, topic) for topic in ("plain", "flushed", "retained"))
        compacted = Writer(node, "compacted", keyed=True)
        transactional, churn = TransactionalWriter(node), TopicChurn(node)
        workers: list[Worker] = [plain, flushed, retained, compacted, transactional, churn]
        for worker in workers:
            worker.start()
        done = 0
        began = time.monotonic()
        while done < kills:
            time.sleep(chance.uniform(0.02, 1.0))
            done += kill_and_start(node, chance)
        for worker in workers:
            worker.end()
        check_all_there(node, plain)
        check_all_there(node, flushed)
        check_retained(node, retained)
        check_compacted(node, compacted)
        check_transactions(node, transactional)
        churn.check()
        said = node.log()
        print(
            f"{done} kills in {time.monotonic() - began:.0f} s: {plain.written} plain, {compacted.written} compacted, "
            f"{len(transactional.committed)} + {len(transactional.aborted)} transactions of {transactional.count}, "
            f"{churn.made} topics, {said.count(' is clean from offset')} cleanings, "
            f"{said.count('segments deleted')} rounds of retention"
        )
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:5000]
    return done
