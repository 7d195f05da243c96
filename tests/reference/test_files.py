"""Files change hands: Kafka's dump tool reads ours, we open Kafka's, and Kafka continues where we stopped."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.node.storage import producer_state
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.node.storage.origin import Origin
from barnabas.wire.batch import Record, build_batch, decode_records, read_header
from barnabas.wire.compression import Compression
from tests.support import reference
from tests.support.log_reading import iterate, offset_for_timestamp

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
FIRST_MS = int(time.time() * 1000) - 600_000
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)


@pytest.fixture(scope="module", autouse=True)
def _reference() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    done = reference.run_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    complaints = re.findall(
        r".*(?:mismatch|Mismatch|error|Error|out of order|corrupt|Exception).*", done.stdout + done.stderr
    )
    assert not complaints, complaints
    return done.stdout


def marker(kind: int) -> bytearray:
    record = Record(0, int(time.time() * 1000), struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 2))
    return build_batch([record], producer_id=9, producer_epoch=1, control=True, transactional=True)


@pytest.fixture(scope="module")
def our_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several segments, every codec, an idempotent producer, an aborted and a committed transaction."""
    directory = tmp_path_factory.mktemp("ours") / "orders-0"
    now_ms = int(time.time() * 1000)
    log = create_log(directory, "orders", 0, LogConfig(segment_bytes=60_000), now_ms=now_ms)
    for i in range(300):
        headers = (("trace", b"%d" % i), ("empty", None))
        records = [
            Record(j, now_ms + i, b"key-%d" % (i * 5 + j), b"value-%d" % (i * 5 + j) * 20, headers) for j in range(5)
        ]
        batch = build_batch(
            records, compression=Compression(i % 5), producer_id=77, producer_epoch=3, base_sequence=5 * i
        )
        log.append(batch, leader_epoch=i // 100, now_ms=now_ms + i)
    for kind in (producer_state.ABORT_MARKER, producer_state.COMMIT_MARKER):
        batch = build_batch(
            [Record(0, now_ms + 300, b"t", b"v")],
            producer_id=9,
            producer_epoch=1,
            base_sequence=kind,
            transactional=True,
        )
        log.append(batch, leader_epoch=2, now_ms=now_ms)
        log.append(marker(kind), leader_epoch=2, now_ms=now_ms, origin=Origin.COORDINATOR)
    log.close(clean=True)
    return directory


def test_kafka_s_dump_tool_reads_our_log_with_every_codec(our_directory: Path) -> None:
    text = dump(*sorted(our_directory.glob("*.log")), options=("--deep-iteration", "--print-data-log"))
    assert re.findall(r"\| offset: (\d+) CreateTime", text) == [str(i) for i in range(1_504)]
    assert re.findall(r"payload: (value-\d+?)value", text) == [f"value-{i}" for i in range(1_500)]
    assert len(re.findall(r"isvalid: true", text)) == 304
    for codec in CODECS:
        assert text.count(f"compresscodec: {codec}") >= 60
    assert text.count("partitionLeaderEpoch: 1 ") == 100
    assert "endTxnMarker: ABORT" in text
    assert "endTxnMarker: COMMIT" in text


def test_kafka_s_dump_tool_finds_our_indexes_in_agreement_with_the_log(our_directory: Path) -> None:
    offset_indexes, time_indexes = sorted(our_directory.glob("*.index")), sorted(our_directory.glob("*.timeindex"))
    assert sum(path.stat().st_size for path in offset_indexes) > 100
    text = dump(*offset_indexes, *time_indexes, options=("--verify-index-only",))
    assert len(re.findall(r"^Dumping ", text, re.M)) == len(offset_indexes) + len(time_indexes)
    for path in offset_indexes:
        assert len(re.findall(r"offset: \d+ position: \d+", dump(path))) == path.stat().st_size // 8
    text = dump(*offset_indexes, *time_indexes, options=("--index-sanity-check",))
    assert text.count("passed sanity check") == len(offset_indexes) + len(time_indexes)


def test_kafka_s_dump_tool_reads_our_snapshot_and_transaction_index(our_directory: Path) -> None:
    text = dump(max(our_directory.glob("*.snapshot")))
    assert re.search(r"producerId: 77 producerEpoch: 3 .*lastSequence: 1499 lastOffset: 1499 offsetDelta: 4", text)
    assert re.search(
        r"producerId: 9 producerEpoch: 1 coordinatorEpoch: 2 .*currentTxnFirstOffset: OptionalLong.empty", text
    )
    [transactions] = our_directory.glob("*.txnindex")
    assert re.search(r"producerId: 9 firstOffset: 1500 lastOffset: 1501 lastStableOffset: 1502", dump(transactions))


class Handover:
    """A directory that Apache Kafka formatted, wrote to and left after a clean stop."""

    def __init__(self, root: Path) -> None:
        self.kafka = reference.ApacheKafka(directory=root, properties={"log.segment.bytes": str(SEGMENT_BYTES)})
        self.kafka.start()
        self.sent: dict[str, list[bytes]] = {}
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        topics = [NewTopic(name, 1, 1) for name in (*CODECS, "transactions")]
        for done in admin.create_topics(topics).values():
            done.result()
        for codec in CODECS:
            self.produce(codec, codec)
        self.transactions()
        self.kafka.stop()

    def produce(self, topic: str, codec: str) -> None:
        config = {"bootstrap.servers": self.kafka.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
        producer = Producer({**config, "compression.type": codec, "batch.num.messages": 100})
        values = [b"%s-%d-" % (topic.encode(), i) + os.urandom(300) for i in range(4_000)]
        for i, value in enumerate(values):
            producer.produce(topic, value, key=b"%d" % i, headers=[("h", b"x")], timestamp=FIRST_MS + i)
            producer.poll(0)
            if i % 100 == 99:
                producer.flush()
        self.sent[topic] = values

    def transactions(self) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions()
        for i in range(6):
            producer.begin_transaction()
            producer.produce("transactions", b"%d" % i)
            producer.flush()
            producer.commit_transaction() if i % 2 else producer.abort_transaction()
        self.sent["transactions"] = [b"1", b"3", b"5"]

    def consume(self, topic: str, count: int) -> list[bytes]:
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "g", "isolation.level": "read_committed"}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        limit = time.monotonic() + 30
        while len(values) < count and time.monotonic() < limit:
            for message in consumer.consume(1_000, timeout=1):
                assert message.error() is None
                values.append(message.value())
        consumer.close()
        return values


@pytest.fixture(scope="module")
def handover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handover]:
    handover = Handover(tmp_path_factory.mktemp("handover"))
    yield handover
    handover.kafka.close()


async def load(path: Path) -> LogDirs:
    dirs = LogDirs([path])
    dirs.begin()
    await dirs.load(lambda topic: CONFIG, now_ms=int(time.time() * 1000))
    return dirs


def copied(handover: Handover, tmp_path: Path) -> Path:
    return Path(shutil.copytree(handover.kafka.data_dir, tmp_path / "copy"))


def values_of(log: PartitionLog) -> list[bytes | None]:
    batches = [each for each in iterate(log) if not read_header(each).is_control]
    return [record.value for each in batches for record in decode_records(each)]


def test_we_open_what_kafka_wrote(handover: Handover, tmp_path: Path) -> None:
    async def scenario() -> None:
        dirs = await load(copied(handover, tmp_path))
        assert dirs.dirs[0].was_clean
        assert dirs.meta() is not None
        for codec in CODECS:
            log = dirs.get(codec, 0)
            assert log is not None
            assert values_of(log) == handover.sent[codec]
            assert log.topic_id is not None
            assert log.recovery_point == log.log_end_offset == dirs.read_high_watermarks()[codec, 0] == 4_000
            assert len(log.active_producers()) == 1
            found = offset_for_timestamp(log, FIRST_MS + 2_345)
            assert found is not None
            assert found.offset == 2_345
            assert log.end_offset_for_epoch(0) == (0, 4_000)
        log = dirs.get("transactions", 0)
        assert log is not None
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        assert [aborted.first_offset for aborted in log.aborted_transactions(0, 100)] == [0, 4, 8]
        await dirs.close(clean=False)

    asyncio.run(scenario())


def test_our_recovery_writes_the_same_indexes_and_snapshots_as_kafka(handover: Handover, tmp_path: Path) -> None:
    path = copied(handover, tmp_path)
    written = {each: each.read_bytes() for each in path.glob("*/*.*index") if "cluster_metadata" not in str(each)}
    assert sum(map(len, written.values())) > 1_000
    snapshots = {each: each.read_bytes() for each in path.glob("*-0/*.snapshot") if "cluster_metadata" not in str(each)}
    for each in (*written, *snapshots, path / ".kafka_cleanshutdown", *path.glob("*/leader-epoch-checkpoint")):
        each.unlink()
    (path / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    async def scenario() -> None:
        dirs = await load(path)
        assert not dirs.dirs[0].was_clean
        for log in dirs:
            log.flush()
        await dirs.close(clean=False)

    asyncio.run(scenario())
    for each, content in {**written, **snapshots}.items():
        assert each.read_bytes() == content, each.relative_to(path)


def test_kafka_continues_where_we_stopped(handover: Handover) -> None:
    """We append to partitions that Kafka made and close them; Kafka consumes and continues without a complaint."""
    path = handover.kafka.data_dir

    async def scenario() -> None:
        dirs = await load(path)
        epoch = dirs.dirs[0].previous_broker_epoch
        for codec in CODECS:
            log = dirs.get(codec, 0)
            assert log is not None
            append_ours(log, Compression.named(codec), handover.sent[codec])
        high_watermarks = {(log.topic, log.partition): log.log_end_offset for log in dirs}
        await dirs.close(clean=True, broker_epoch=epoch, high_watermarks=high_watermarks)

    asyncio.run(scenario())
    handover.kafka.log_file.unlink()
    handover.kafka.start()
    for topic, values in handover.sent.items():
        assert handover.consume(topic, len(values)) == values
    handover.produce("none", "none")
    handover.kafka.stop()
    complaints = [
        line for line in handover.kafka.log_file.read_text().splitlines() if re.search("ERROR|[Cc]orrupt", line)
    ]
    assert not complaints, complaints


def append_ours(log: PartitionLog, codec: Compression, sent: list[bytes]) -> None:
    latest_epoch = log.epochs.latest
    for i in range(30):
        values = [b"ours-%d-%d" % (i, j) * 30 for j in range(100)]
        records = [Record(j, FIRST_MS + 60_000 + i, b"k", value) for j, value in enumerate(values)]
        batch = build_batch(records, compression=codec, producer_id=5_000, producer_epoch=0, base_sequence=100 * i)
        log.append(batch, leader_epoch=latest_epoch, now_ms=FIRST_MS)
        sent += values


def test_a_jvm_and_we_exclude_each_other_from_a_directory(handover: Handover) -> None:
    directory = LogDirs([handover.kafka.data_dir])
    try:
        with pytest.raises(RuntimeError, match="ended while starting"):
            handover.kafka.start()
        assert "lock" in handover.kafka.log_file.read_text().lower()
    finally:
        for each in directory.dirs:
            assert isinstance(each, LogDir)
            each.release()
