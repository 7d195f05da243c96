"""Kafka reads the metadata log and the snapshots that our controller writes, and our controller those of Kafka."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.records import LEVEL_NAMES, record_version
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.metadata.snapshotting import SnapshotPolicy
from barnabas.node.quorum_member import QuorumMember
from barnabas.node.raft.format import claim_directories
from barnabas.node.raft.load import LoadedMetadata, load_metadata
from barnabas.node.raft.snapshots import list_snapshots
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import metadata_record_types
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid
from tests.support import reference, reference_libs
from tests.support.reference_exchange import Side
from tests.support.waiting import until

# Registered, but nobody listens there: these controllers have no network.
BROKER = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
CONTROLLER = Endpoint("CONTROLLER", "127.0.0.1", 9093)
EAGER = SnapshotPolicy(max_bytes_between=1, retention_bytes=1)
NEVER = SnapshotPolicy(max_interval_ms=0)


@pytest.fixture(autouse=True)
def _reference_is_there() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")


def clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Metadata:
    """A node's metadata without the node."""

    member: QuorumMember
    broker: BrokerLife
    directory_id: Uuid

    @property
    def image(self) -> MetadataImage:
        return self.member.loader.image

    @property
    def broker_epoch(self) -> int:
        return self.broker.epoch


@asynccontextmanager
async def controller_on(root: Path, snapshots: SnapshotPolicy = NEVER) -> AsyncIterator[Metadata]:
    """Stopped cleanly at the end."""
    log_dir = LogDir(str(root), handles=FileHandles())
    cluster_id = claim_directories(
        [log_dir], log_dir, node_id=1, cluster_id=None, controller_endpoints=[CONTROLLER], now_ms=clock()
    )
    assert log_dir.directory_id is not None
    flusher = ThreadPoolExecutor(1)
    member = QuorumMember(
        load_metadata(root, node_id=1, directory_id=log_dir.directory_id),
        flusher,
        node_id=1,
        cluster_id=cluster_id,
        directory_id=log_dir.directory_id,
        endpoints=[CONTROLLER],
        topic_configs=TopicConfigs(BrokerConfig.from_properties({})),
        clock=clock,
        on_fault=pytest.fail,
        snapshots=snapshots,
    )
    registration = Registration(
        node_id=1,
        cluster_id=cluster_id,
        incarnation_id=Uuid.random(),
        broker_endpoints=[BROKER],
        controller_endpoints=[CONTROLLER],
        log_dirs=[log_dir.directory_id],
    )
    controller = Metadata(member, BrokerLife(registration, member.channel), log_dir.directory_id)
    log_dir.begin()
    try:
        await member.start()
        await member.channel.request(registration.of_controller())
        await controller.broker.register()
        member.snapshotting.start()
        yield controller
    finally:
        await controller.broker.leave()
        await member.stop()
        flusher.shutdown()
        await log_dir.close(clean=True, broker_epoch=controller.broker_epoch)


def load(root: Path) -> LoadedMetadata:
    log_dir = LogDir(str(root), handles=FileHandles())
    try:
        assert log_dir.directory_id is not None
        return load_metadata(root, node_id=1, directory_id=log_dir.directory_id)
    finally:
        log_dir.release()


async def submit(controller: Metadata, *records: Record) -> None:
    assert controller.member.controller.active is not None
    await controller.member.controller.active.decide(lambda image: ControllerDecision(records, None))
    await controller.member.loader.reached(controller.member.raft.high_watermark - 1)


def topic(name: str, directory_id: Uuid) -> list[Record]:
    topic_id = Uuid.random()
    partition = wire.PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_id],
    )
    return [wire.TopicRecord(name=name, topic_id=topic_id), partition]


def dump(*files: Path) -> list[dict[str, Any]]:
    """What Kafka's dump tool decodes, record by record; control records have no type."""
    done = reference.run_tool(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", ",".join(str(file) for file in files)
    )
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    assert "isvalid: true" in done.stdout
    found = []
    for line in done.stdout.splitlines():
        if line.startswith("| offset"):
            found.append(json.loads(line[line.index("{") :]))
            assert "payload" not in line or "type" in found[-1], line
    return found


def kinds(dumped: list[dict[str, Any]]) -> list[str]:
    return [record["type"] for record in dumped if "type" in record]


def kafka_name(record_type: type[Record]) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in record_type.__name__)
    return words.lstrip("_").upper()


def one_of_each(controller: Metadata) -> list[Record]:
    """A legal story that has every type of record in it, apart from those that every start writes."""
    known, gone = topic("known", controller.directory_id), topic("gone", controller.directory_id)
    assert isinstance(gone[0], wire.TopicRecord)
    assert isinstance(known[0], wire.TopicRecord)
    epoch = controller.broker_epoch
    user = [wire.EntityData(entity_type="user", entity_name=None)]
    other = Uuid.random()
    return [
        *known,
        *gone,
        wire.PartitionChangeRecord(topic_id=known[0].topic_id, partition_id=0, leader=1, isr=[1]),
        wire.ClearElrRecord(topic_name="known"),
        wire.RemoveTopicRecord(topic_id=gone[0].topic_id),
        wire.ConfigRecord(resource_type=2, resource_name="known", name="retention.ms", value="86400000"),
        wire.FenceBrokerRecord(id=1, epoch=epoch),
        wire.UnfenceBrokerRecord(id=1, epoch=epoch),
        wire.RegisterBrokerRecord(broker_id=7, incarnation_id=other, broker_epoch=3, rack="a"),
        wire.BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=3, in_controlled_shutdown=1),
        wire.UnregisterBrokerRecord(broker_id=7, broker_epoch=3),
        wire.DelegationTokenRecord(owner="User:anna", requester="User:anna", token_id="token-1"),
        wire.DelegationTokenRecord(owner="User:anna", requester="User:anna", token_id="token-2"),
        wire.RemoveDelegationTokenRecord(token_id="token-1"),
        wire.UserScramCredentialRecord(
            name="anna", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=1
        ),
        wire.UserScramCredentialRecord(
            name="olga", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=1
        ),
        wire.RemoveUserScramCredentialRecord(name="olga", mechanism=2),
        wire.ClientQuotaRecord(entity=user, key="producer_byte_rate", value=1048576.0),
        wire.ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=1000),
        wire.AccessControlEntryRecord(
            id=other,
            resource_type=2,
            resource_name="known",
            pattern_type=3,
            principal="User:anna",
            host="*",
            operation=3,
            permission_type=3,
        ),
        wire.AccessControlEntryRecord(
            id=controller.directory_id,
            resource_type=2,
            resource_name="x",
            pattern_type=3,
            operation=3,
            permission_type=3,
        ),
        wire.RemoveAccessControlEntryRecord(id=controller.directory_id),
        wire.NoOpRecord(),
        wire.ZkMigrationStateRecord(zk_migration_state=0),
        wire.BeginTransactionRecord(name="dropped"),
        wire.NoOpRecord(),
        wire.AbortTransactionRecord(reason="a test"),
    ]


def test_kafkas_dump_tool_reads_every_type_of_record_in_our_log_and_in_our_snapshot(tmp_path: Path) -> None:
    async def story() -> MetadataImage:
        async with controller_on(tmp_path / "data", EAGER) as controller:
            await submit(controller, *one_of_each(controller))
            end_offset = controller.image.offset + 1
            log = tmp_path / "data" / "__cluster_metadata-0"
            await until(lambda: list_snapshots(log)[0].end_offset == end_offset)
            return controller.image.copy()

    image = asyncio.run(story())
    log = tmp_path / "data" / "__cluster_metadata-0"
    in_log = kinds(dump(*sorted(log.glob("*.log"))))
    expected = {kafka_name(each) for each in metadata_record_types().values()}
    assert set(in_log) == expected
    newest = next(each for each in list_snapshots(log) if each.end_offset == image.offset + 1)
    snapshot = dump(log / newest.file_name, tmp_path / "data" / "bootstrap.checkpoint")
    assert [record["data"] for record in snapshot if record.get("type") == "FEATURE_LEVEL_RECORD"] == [
        {"name": "metadata.version", "featureLevel": 30},
        {"name": "transaction.version", "featureLevel": 2},
        {"name": "group.version", "featureLevel": 1},
        {"name": "share.version", "featureLevel": 1},
        {"name": "streams.version", "featureLevel": 1},
        {"name": "eligible.leader.replicas.version", "featureLevel": 1},
    ] * 2
    assert kinds(snapshot)[:-6] == [
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "ZK_MIGRATION_STATE_RECORD",
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",  # the cluster's min.insync.replicas
        "CONFIG_RECORD",
        "CLIENT_QUOTA_RECORD",
        "PRODUCER_IDS_RECORD",
        "ACCESS_CONTROL_ENTRY_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
        "DELEGATION_TOKEN_RECORD",
    ]


def test_kafka_starts_on_a_log_that_was_cut_behind_our_snapshots_and_gives_it_back(tmp_path: Path) -> None:
    root = tmp_path / "data"
    log = root / "__cluster_metadata-0"

    async def ours() -> None:
        async with controller_on(root, EAGER) as controller:
            for number in range(4):
                await submit(controller, *topic(f"topic-{number}", controller.directory_id))
                end_offset = controller.image.offset + 1
                await until(lambda end=end_offset: list_snapshots(log)[0].end_offset == end)  # type: ignore[misc]
            change = wire.ConfigRecord(resource_type=2, resource_name="topic-0", name="retention.ms", value="86400000")
            await submit(controller, change)
            await until(lambda: not (log / "00000000000000000000.log").exists())

    asyncio.run(ours())
    kafka = reference.ApacheKafka(directory=tmp_path / "kafka", data_dir=root)
    kafka.write_properties()
    info = reference.run_tool("kafka-storage", "info", "--config", kafka.properties_file)
    assert info.returncode == 0, info.stdout
    assert "problem" not in info.stdout
    with kafka, Side("Apache Kafka", kafka) as side:
        for number in range(4):
            side.wait_for_leaders(f"topic-{number}", 1)
        side.create_topic("of-kafka")
    loaded = load(root)
    assert set(loaded.image.topics) == {"topic-0", "topic-1", "topic-2", "topic-3", "of-kafka"}
    assert loaded.image.configs == {(4, ""): {"min.insync.replicas": "1"}, (2, "topic-0"): {"retention.ms": "86400000"}}
    assert loaded.epoch == 2

    async def again() -> None:
        async with controller_on(root) as controller:
            assert controller.member.raft.epoch == 3
            assert all(each.partitions[0].leader == 1 for each in controller.image.topics.values())

    asyncio.run(again())


RECORD_VERSIONS_JAVA = """
import org.apache.kafka.server.common.MetadataVersion;
public class RecordVersions {
    public static void main(String[] levels) {
        for (String level : levels) {
            MetadataVersion version = MetadataVersion.fromFeatureLevel(Short.parseShort(level));
            System.out.println(version + " " + version.registerBrokerRecordVersion() + " "
                + version.partitionRecordVersion() + " " + version.partitionChangeRecordVersion() + " "
                + version.registerControllerRecordVersion());
        }
    }
}
"""


def test_our_record_versions_are_those_of_kafka_at_every_level(tmp_path: Path) -> None:
    source = tmp_path / "RecordVersions.java"
    source.write_text(RECORD_VERSIONS_JAVA)
    levels = [str(level) for level in LEVEL_NAMES]
    command = [reference_libs.java(), *reference_libs.classpath_options(), str(source), *levels]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "com.sun.tools.javac" in done.stderr:
        pytest.skip("this Java cannot compile")
    of_kafka = [line.split() for line in done.stdout.splitlines()]
    types = (
        wire.RegisterBrokerRecord,
        wire.PartitionRecord,
        wire.PartitionChangeRecord,
        wire.RegisterControllerRecord,
    )
    ours = [[name, *(str(record_version(each, level)) for each in types)] for level, name in LEVEL_NAMES.items()]
    assert of_kafka == ours, done.stderr


@pytest.mark.parametrize("level", LEVEL_NAMES)
def test_a_directory_that_kafka_formatted_opens_at_its_level(tmp_path: Path, level: int) -> None:
    kafka = reference.ApacheKafka(directory=tmp_path, release_version=LEVEL_NAMES[level])
    kafka.format()

    async def story() -> None:
        async with controller_on(kafka.data_dir) as controller:
            assert controller.image.metadata_version == level
            await submit(controller, *topic("ours", controller.directory_id))

    asyncio.run(story())
    dumped = dump(kafka.data_dir / "__cluster_metadata-0" / "00000000000000000000.log")
    assert "TOPIC_RECORD" in kinds(dumped)
    versions = {record["type"]: record["version"] for record in dumped if "type" in record}
    assert versions["REGISTER_BROKER_RECORD"] == (4 if level >= 30 else 3)
    assert load(kafka.data_dir).level == level


def check_versions(log: Path, level: int) -> None:
    """Kafka wrote each record in the version of our table; a change of a broker may be said in an older one."""
    by_name = {kafka_name(each): each for each in metadata_record_types().values()}
    for record in dump(log):
        if "type" in record:
            ours = record_version(by_name[record["type"]], level)
            assert record["version"] == ours or (
                record["type"] == "BROKER_REGISTRATION_CHANGE_RECORD" and record["version"] < ours
            ), record


def test_what_kafka_wrote_at_its_own_level_is_the_same_image_for_us(tmp_path: Path) -> None:
    kafka = reference.ApacheKafka(
        directory=tmp_path, properties={"metadata.log.max.snapshot.interval.ms": "500"}, release_version="4.3"
    )
    log = kafka.data_dir / "__cluster_metadata-0"
    with kafka, Side("Apache Kafka", kafka) as side:
        side.create_topic("of-kafka", 2, {"retention.ms": "123456789"})
        limit = time.monotonic() + 20
        while len(list_snapshots(log)) < 2:
            assert time.monotonic() < limit
            time.sleep(0.05)
    check_versions(log / "00000000000000000000.log", 30)
    by_snapshot = load(kafka.data_dir)
    assert by_snapshot.snapshot_id is not None
    assert by_snapshot.snapshot_id.end_offset > 0
    for snapshot_id in list_snapshots(log)[:-1]:
        (log / snapshot_id.file_name).unlink()
    by_log = load(kafka.data_dir)
    assert by_log.image == by_snapshot.image
    assert by_log.image.features["eligible.leader.replicas.version"] == 1
    assert [each.eligible_leader_replicas for each in by_log.image.topics["of-kafka"].partitions.values()] == [[1], [1]]
    assert by_log.image.configs[2, "of-kafka"] == {"retention.ms": "123456789"}
    assert by_log.image.brokers[1].fenced


def test_a_quorum_with_configured_voters_goes_to_us_and_back(tmp_path: Path) -> None:
    port = reference.free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{port}", "controller.quorum.bootstrap.servers": ""}
    kafka = reference.ApacheKafka(directory=tmp_path, controller_port=port, properties=voters)
    kafka.write_properties()
    args = ("--cluster-id", kafka.cluster_id, "--config", kafka.properties_file, "--release-version", "4.0")
    done = reference.run_tool("kafka-storage", "format", *args)
    assert done.returncode == 0, done.stdout + done.stderr
    log = kafka.data_dir / "__cluster_metadata-0"
    with kafka, Side("Apache Kafka", kafka) as side:
        side.create_topic("of-kafka", 2, {"retention.ms": "123456789"})
    check_versions(log / "00000000000000000000.log", 25)

    async def ours() -> None:
        async with controller_on(kafka.data_dir) as controller:
            assert controller.member.raft.quorum().voters_record is None
            assert controller.image.topics["of-kafka"].partitions[1].leader == 1
            await submit(controller, *topic("ours", controller.directory_id))

    asyncio.run(ours())
    assert json.loads((log / "quorum-state").read_text())["data_version"] == 0
    with kafka, Side("Apache Kafka", kafka) as side:
        side.wait_for_leaders("ours", 1)
        side.wait_for_leaders("of-kafka", 2)
