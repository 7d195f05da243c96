"""Kafka's own tools read what our node leaves on disk."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node, reference
from barnabas.testing.reference_batches import crafted_batch
from barnabas.testing.reference_exchange import Side
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCER_ID = 4242


def append(side: Side, topic: str, records: bytes) -> None:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=records)])]
    answer: Any = side.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def live_a_little(side: Side) -> None:
    """Topics of several kinds, segments that roll, a producer with sequences, deleted records, changed configs."""
    side.create_topic("rolled", configs={"segment.bytes": "1048576"})
    for number in range(6):
        append(side, "rolled", crafted_batch([(b"key-%d" % number, b"v" * 1000)] * 400))
    side.create_topic("sequenced", configs={"cleanup.policy": "compact"})
    for number in range(3):
        batch = crafted_batch(producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=number)
        append(side, "sequenced", batch)
    part = [DeleteRecordsPartition(partition_index=0, offset=500)]
    side.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="rolled", partitions=part)], timeout_ms=9_000), 2)
    grown = [CreatePartitionsTopic(name="sequenced", count=3, assignments=None)]
    side.ask(CreatePartitionsRequest(topics=grown, timeout_ms=9_000), 3)
    change = [AlterableConfig(name="retention.ms", config_operation=0, value="123456789")]
    resource = AlterConfigsResource(resource_type=2, resource_name="rolled", configs=change)
    side.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that was stopped cleanly."""
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    data_dir = tmp_path_factory.mktemp("files") / "data"
    with Node(data_dir=data_dir) as node, Side("Barnabas", node) as side:
        live_a_little(side)
    return data_dir


# Kafka's tool calls the first offset of every segment but the first "non-consecutive": no complaint of ours.
def dump(*args: str | Path) -> str:
    done = reference.run_tool("kafka-dump-log", *args, timeout_s=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for complaint in ("Mismatch", "corrupt", "Exception", "is wrong", "isvalid: false"):
        assert complaint not in done.stdout + done.stderr, done.stdout[:3000] + done.stderr
    return done.stdout


def listed(paths: list[Path]) -> str:
    assert paths
    return ",".join(str(path) for path in sorted(paths))


def test_the_dump_tool_reads_every_batch(left_behind: Path) -> None:
    logs = [path for path in left_behind.glob("[rs]*-0/*.log") if path.stat().st_size]
    printed = dump("--deep-iteration", "--print-data-log", "--files", listed(logs))
    assert printed.count("isvalid: true") >= 9
    assert f"producerId: {PRODUCER_ID} producerEpoch: 1" in printed


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_dump_tool_finds_indexes_sane(left_behind: Path, kind: str) -> None:
    indexes = list(left_behind.glob(f"[rs]*-0/*.{kind}"))
    dump("--files", listed(indexes))
    printed = dump("--index-sanity-check", "--files", listed(indexes))
    assert printed.count("passed sanity check") + printed.count("is empty") == len(indexes)


def test_the_dump_tool_reads_producer_snapshots(left_behind: Path) -> None:
    printed = dump("--files", listed(list(left_behind.glob("sequenced-0/*.snapshot"))))
    assert f"producerId: {PRODUCER_ID} producerEpoch: 1" in printed
    assert "lastSequence: 2" in printed


def test_the_dump_tool_decodes_the_metadata_log(left_behind: Path) -> None:
    directory = left_behind / "__cluster_metadata-0"
    files = [*directory.glob("*.log"), *directory.glob("*.checkpoint"), left_behind / "bootstrap.checkpoint"]
    printed = dump("--cluster-metadata-decoder", "--files", listed(files))
    for record in (
        "FEATURE_LEVEL_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REGISTER_BROKER_RECORD",
    ):
        assert f'"type":"{record}"' in printed, record
    assert "KRaftVersion" in printed
    assert "Voters" in printed


def test_the_storage_tool_knows_the_directory(left_behind: Path, tmp_path: Path) -> None:
    kafka = reference.ApacheKafka(directory=tmp_path, data_dir=left_behind)
    kafka.write_properties()
    done = reference.run_tool("kafka-storage", "info", "--config", kafka.properties_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Found problem" not in done.stdout
