"""Partitions on real logs: what is committed, what is read, who is told, and how they follow the metadata."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataDelta, MetadataImage, PartitionState
from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.partition import Partition, PartitionRead
from barnabas.node.broker.partitions import Intervals, Partitions
from barnabas.node.storage.directory.background import IndexBeingRepaired
from barnabas.node.storage.directory.checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offsets
from barnabas.node.storage.directory.log_dir import LogDir, NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchPartition
from barnabas.wire.records.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.reference_batches import crafted_batch

NODE = 1
NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"topic-id-0000001")
OTHER_ID = Uuid(b"topic-id-0000002")
ONE = crafted_batch([(b"k", b"v")])
LOG_APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")


def state_of(**changes: Any) -> PartitionState:
    fields = {
        "topic_id": TOPIC_ID,
        "topic": "orders",
        "index": 0,
        "replicas": [NODE],
        "isr": [NODE],
        "leader": NODE,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return PartitionState(**(fields | changes))


def opened(tmp_path: Path, config: LogConfig | None = None, **changes: Any) -> Partition:
    log = create_log(tmp_path / "orders-0", "orders", 0, config or LogConfig(), now_ms=NOW_MS)
    return Partition(NODE, state_of(**changes), log, 0)


def asked(offset: int = 0, max_bytes: int = 1 << 20, **rest: int) -> PartitionFetch:
    return PartitionFetch("orders", FetchPartition(fetch_offset=offset, partition_max_bytes=max_bytes, **rest))


def read(partition: Partition, fetch: PartitionFetch, *, read_committed: bool = False) -> PartitionRead:
    return partition.read(fetch, 1 << 20, True, read_committed)


def fill(partition: Partition, count: int, acks: int = 1) -> None:
    for _ in range(count):
        partition.append(bytearray(ONE), acks, NOW_MS)


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


class Notes:
    """A watcher that writes down what it is told."""

    def __init__(self, patience: int) -> None:
        self.told: list[Any] = []
        self.patience = patience

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        self.told.append((size_bytes, stable_bytes))
        return len(self.told) < self.patience

    def changed(self) -> None:
        self.told.append("changed")


def watch(partition: Partition, patience: int = 100) -> Notes:
    notes = Notes(patience)
    partition.watchers[notes] = None
    return notes


def transaction(tmp_path: Path) -> tuple[Partition, bytes]:
    batch = crafted_batch([(b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    return opened(tmp_path), batch


# One partition


def test_an_append_is_committed_read_and_told_at_once(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    notes = watch(partition)
    appended = partition.append(bytearray(crafted_batch([(b"k", b"v")] * 3)), 1, NOW_MS)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    assert notes.told == [(appended.size, appended.size)]
    found = read(partition, asked())
    assert (found.error_code, found.high_watermark, found.log_start_offset, len(found.records)) == (
        0,
        3,
        0,
        appended.size,
    )


def test_a_watcher_that_has_heard_enough_is_not_told_again(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    satisfied, patient = watch(partition, patience=1), watch(partition)
    fill(partition, 3)
    assert (len(satisfied.told), len(patient.told)) == (1, 3)


def test_a_duplicate_is_told_to_nobody(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    batch = crafted_batch(producer_id=7, producer_epoch=0, base_sequence=0)
    partition.append(bytearray(batch), 1, NOW_MS)
    notes = watch(partition)
    again = partition.append(bytearray(batch), 1, NOW_MS)
    assert (again.first_offset, again.duplicate) == (0, True)
    assert notes.told == []


def test_nothing_is_read_above_the_high_watermark(tmp_path: Path) -> None:
    partition = opened(tmp_path, replicas=[1, 2], isr=[1, 2])
    notes = watch(partition)
    fill(partition, 4)
    assert (partition.high_watermark, notes.told) == (0, [])
    assert read(partition, asked()).records == b""
    partition.fetched_by(2, 3, -1, 0)
    found = read(partition, asked())
    assert (found.high_watermark, len(found.records)) == (3, 3 * len(ONE))
    assert notes.told == [(3 * len(ONE), 3 * len(ONE))]


def test_when_a_follower_leaves_the_rest_is_committed_and_told(tmp_path: Path) -> None:
    partition = opened(tmp_path, replicas=[1, 2], isr=[1, 2])
    notes = watch(partition)
    fill(partition, 4)
    partition.apply(state_of(replicas=[1, 2], isr=[1], partition_epoch=1), now_ms=2 * NOW_MS)
    assert partition.high_watermark == 4
    assert notes.told == [(4 * len(ONE), 4 * len(ONE))]


def test_a_new_leader_epoch_is_told_and_begins_in_the_log(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    fill(partition, 2)
    notes = watch(partition)
    partition.apply(state_of(leader_epoch=5))
    assert notes.told == ["changed"]
    fill(partition, 1)
    assert partition.log.end_offset_for_epoch(0) == (0, 2)
    assert partition.log.end_offset_for_epoch(5) == (5, 3)


def test_whoever_does_not_lead_neither_appends_nor_answers(tmp_path: Path) -> None:
    partition = opened(tmp_path, leader=2, replicas=[1, 2], isr=[2])
    assert refusal(lambda: fill(partition, 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert read(partition, asked()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.acknowledgement_error(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_reader_of_another_epoch_is_refused(tmp_path: Path, epoch: int, error: ErrorCode) -> None:
    partition = opened(tmp_path, leader_epoch=3)
    assert read(partition, asked(current_leader_epoch=epoch)).error_code == error


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_offsets_that_the_log_does_not_have(tmp_path: Path, offset: int) -> None:
    partition = opened(tmp_path)
    fill(partition, 2)
    found = read(partition, asked(offset))
    assert (found.error_code, found.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_fetcher_with_records_that_we_never_had_is_told_where_it_diverges(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    fill(partition, 2)
    partition.apply(state_of(leader_epoch=3))
    fill(partition, 2)
    assert read(partition, asked(4, last_fetched_epoch=0)).diverging_epoch == (0, 2)
    assert read(partition, asked(2, last_fetched_epoch=0)).diverging_epoch is None
    assert read(partition, asked(4, last_fetched_epoch=2)).diverging_epoch == (0, 2)
    assert read(partition, asked(4, last_fetched_epoch=9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_acks_all_needs_its_in_sync_replicas(tmp_path: Path) -> None:
    partition = opened(tmp_path, LogConfig(min_insync_replicas=2), replicas=[1, 2], isr=[1])
    assert refusal(lambda: fill(partition, 1, acks=-1)) == ErrorCode.NOT_ENOUGH_REPLICAS
    fill(partition, 1, acks=1)
    assert partition.acknowledgement_error(0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_an_open_transaction_holds_back_who_reads_committed_records(tmp_path: Path) -> None:
    partition, batch = transaction(tmp_path)
    notes = watch(partition)
    partition.append(bytearray(batch), 1, NOW_MS)
    fill(partition, 1)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 0)
    assert notes.told == [(len(batch), 0), (len(ONE), 0)]
    assert read(partition, asked(), read_committed=True).records == b""
    assert read(partition, asked(), read_committed=True).aborted_transactions == []
    assert read(partition, asked()).aborted_transactions is None
    assert len(read(partition, asked()).records) == len(batch) + len(ONE)


def test_the_last_stable_offset_does_not_stay_below_a_log_start_that_has_passed_it(tmp_path: Path) -> None:
    partition, batch = transaction(tmp_path)
    partition.append(bytearray(batch), 1, NOW_MS)
    fill(partition, 4)
    partition.log.advance_log_start_offset(3)
    partition.log_start_moved()
    assert (partition.last_stable_offset, partition.high_watermark) == (3, 5)
    assert read(partition, asked(3), read_committed=True).last_stable_offset == 3


def test_a_retired_partition_wakes_and_forgets_its_watchers(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    notes = watch(partition)
    partition.retire()
    assert notes.told == ["changed"]
    assert not partition.watchers
    assert partition.acknowledgement_error(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_moved_log_start_is_news_without_bytes(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    fill(partition, 2)
    notes = watch(partition)
    partition.log.advance_log_start_offset(1)
    partition.log_start_moved()
    assert notes.told == [(0, 0)]


def test_an_offline_log_is_a_storage_error(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    partition.log.offline = True
    assert refusal(lambda: fill(partition, 1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert read(partition, asked()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# All partitions of a node


class Cluster:
    """A node's storage and metadata without the rest of the node."""

    def __init__(self, *roots: Path, image: MetadataImage | None = None, **intervals: int) -> None:
        self.image = image or MetadataImage()
        self.log_dirs = LogDirs(roots)
        self.log_dirs.identify("cluster", NODE)
        self.configs: dict[str, LogConfig] = {}
        self.partitions = Partitions(
            NODE, self.log_dirs, self.config_for, lambda: NOW_MS, Intervals(**intervals) if intervals else None
        )

    def config_for(self, topic: str) -> LogConfig:
        return self.configs.get(topic, LogConfig(file_delete_delay_ms=20))

    async def start(self) -> None:
        self.log_dirs.begin()
        await self.log_dirs.load(self.config_for, now_ms=NOW_MS)
        await self.partitions.start(self.image)

    async def commit(self, *records: Record) -> None:
        delta = MetadataDelta()
        self.image.replay_all(records, delta)
        await self.partitions.apply(delta)

    async def stop(self, *, clean: bool = True) -> None:
        await self.partitions.stop()
        await self.log_dirs.close(clean=clean, high_watermarks=self.partitions.high_watermarks())

    def get(self, topic: str = "orders", index: int = 0) -> Partition:
        partition = self.partitions.get(topic, index)
        assert partition is not None
        return partition


def topic_of(name: str = "orders", topic_id: Uuid = TOPIC_ID, partitions: int = 1, **rest: Any) -> list[Record]:
    directories = {"directories": [ZERO_UUID], "replicas": [NODE], "isr": [NODE], "leader": NODE} | rest
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(topic_id=topic_id, partition_id=index, leader_epoch=0, partition_epoch=0, **directories)
            for index in range(partitions)
        ),
    ]


def run(story: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(story, 20)

    asyncio.run(limited())


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def test_a_created_topic_can_be_written_to_when_it_is_applied(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of(partitions=3))
        fill(cluster.get(index=2), 1)
        assert names(tmp_path / "orders-2")[:1] == ["00000000000000000000.log"]
        assert len(cluster.partitions) == 3
        await cluster.stop()

    run(story())


def test_a_directory_that_fails_takes_no_new_partitions_of_other_directories_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = LogDir.make_directories

    def failing(directory: LogDir, partitions: Sequence[NewPartition]) -> None:
        if directory.path.endswith("b"):
            raise OSError(errno.ENOSPC, "No space left on device")
        make(directory, partitions)

    monkeypatch.setattr(LogDir, "make_directories", failing)

    async def story() -> None:
        cluster = Cluster(tmp_path / "a", tmp_path / "b")
        await cluster.start()
        healthy, broken = cluster.log_dirs.dirs
        assert broken.directory_id is not None
        there = topic_of("there", OTHER_ID, directories=[broken.directory_id])
        await cluster.commit(*topic_of(partitions=4), *there)
        assert cluster.log_dirs.online == [healthy]
        for index in range(4):
            fill(cluster.get(index=index), 1)
        assert cluster.partitions.get("there", 0) is None
        missing = cluster.partitions.missing_error(cluster.image, "there", 0)
        assert missing is ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.stop()

    run(story())


def test_what_was_written_is_there_after_a_clean_stop_and_after_none(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of())
        for clean in (True, False):
            fill(cluster.get(), 5)
            before = cluster.get().high_watermark
            await cluster.stop(clean=clean)
            cluster = Cluster(tmp_path, image=cluster.image)
            await cluster.start()
            assert (cluster.get().high_watermark, cluster.get().topic_id) == (before, TOPIC_ID)
        await cluster.stop()

    run(story())


def test_a_deleted_topic_leaves_and_its_name_can_be_used_again_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of())
        fill(cluster.get(), 5)
        old = cluster.get()
        notes = watch(old)
        await cluster.commit(RemoveTopicRecord(topic_id=TOPIC_ID), *topic_of(topic_id=OTHER_ID))
        assert notes.told == ["changed"]
        assert old.is_gone
        assert (cluster.get().high_watermark, cluster.get().topic_id) == (0, OTHER_ID)
        await until(lambda: [name for name in names(tmp_path) if name.startswith("orders")] == ["orders-0"])
        await cluster.stop()

    run(story())


def test_a_directory_that_the_cluster_does_not_know_is_set_aside(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of("orders", TOPIC_ID), *topic_of("stray", OTHER_ID))
        await cluster.stop()
        image = MetadataImage()
        image.replay_all(topic_of("orders", Uuid(b"another-topic-id")))
        cluster = Cluster(tmp_path, image=image)
        await cluster.start()
        strays = [name.partition(".")[0] for name in names(tmp_path) if name.endswith("-stray")]
        assert sorted(strays) == ["orders-0", "stray-0"]
        assert cluster.get().log.topic_id == Uuid(b"another-topic-id")
        assert cluster.partitions.get("stray", 0) is None
        await cluster.stop()

    run(story())


def test_a_partition_of_the_image_without_a_directory_gets_one(tmp_path: Path) -> None:
    async def story() -> None:
        image = MetadataImage()
        image.replay_all(topic_of(partitions=2))
        cluster = Cluster(tmp_path, image=image)
        await cluster.start()
        fill(cluster.get(index=1), 1)
        await cluster.stop()

    run(story())


def test_a_partition_whose_directory_is_lost_is_not_made_anew_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        image = MetadataImage()
        image.replay_all(topic_of(directories=[Uuid(b"a lost directory")]))
        cluster = Cluster(tmp_path, image=image)
        await cluster.start()
        await cluster.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=-1))
        assert cluster.partitions.get("orders", 0) is None
        assert cluster.partitions.missing_error(image, "orders", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not (tmp_path / "orders-0").exists()
        await cluster.stop()

    run(story())


def test_a_partition_of_other_nodes_is_none_of_ours(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of(replicas=[2], isr=[2], leader=2))
        assert cluster.partitions.get("orders", 0) is None
        missing_error = cluster.partitions.missing_error
        assert missing_error(cluster.image, "orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert missing_error(cluster.image, "orders", 7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert missing_error(cluster.image, "nothing", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.stop()

    run(story())


def test_a_partition_that_moves_away_is_removed(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of())
        moved = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[2], isr=[2], leader=2)
        await cluster.commit(moved)
        assert cluster.partitions.get("orders", 0) is None
        await until(lambda: not any(name.startswith("orders") for name in names(tmp_path)))
        await cluster.stop()

    run(story())


def test_a_changed_config_reaches_the_logs_of_its_topic(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of("orders", TOPIC_ID), *topic_of("other", OTHER_ID))
        cluster.configs = {"orders": LOG_APPEND_TIME, "other": LOG_APPEND_TIME}
        record = ConfigRecord(resource_type=2, resource_name="orders", name="message.timestamp.type", value="x")
        await cluster.commit(record)
        assert cluster.get("orders").log.config.log_append_time
        assert not cluster.get("other").log.config.log_append_time
        await cluster.commit(ConfigRecord(resource_type=4, resource_name="", name="any", value="x"))
        assert cluster.get("other").log.config.log_append_time
        await cluster.stop()

    run(story())


def test_checkpoints_are_written_while_it_runs(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path, high_watermark_checkpoint_ms=5, recovery_point_checkpoint_ms=5)
        await cluster.start()
        await cluster.commit(*topic_of())
        fill(cluster.get(), 7)
        expected = {("orders", 0): 7}
        await until(lambda: read_offsets(str(tmp_path), REPLICATION_OFFSET_CHECKPOINT) == expected)
        await cluster.stop()

    run(story())


def test_a_log_is_flushed_when_its_time_has_come(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path, flush_check_ms=5)
        cluster.configs["orders"] = LogConfig(flush_ms=0)
        await cluster.start()
        await cluster.commit(*topic_of())
        fill(cluster.get(), 3)
        await until(lambda: cluster.get().log.recovery_point == 3)
        await cluster.stop()

    run(story())


def test_a_failed_directory_wakes_who_waits_for_its_partitions(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = Cluster(tmp_path)
        await cluster.start()
        await cluster.commit(*topic_of())
        notes = watch(cluster.get())
        directory = cluster.log_dirs.dirs[0]
        directory.failed(OSError("disk full"))
        cluster.partitions.log_dir_failed(directory)
        assert notes.told == ["changed"]
        assert cluster.get().availability_error() is ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.stop(clean=False)

    run(story())


def test_a_partition_whose_directory_is_not_there_is_not_begun_anew(tmp_path: Path) -> None:
    async def story() -> None:
        image = MetadataImage()
        image.replay_all(topic_of(directories=[Uuid(b"another-disk-id!")]))
        cluster = Cluster(tmp_path, image=image)
        await cluster.start()
        assert cluster.partitions.get("orders", 0) is None
        assert cluster.partitions.missing_error(image, "orders", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not (tmp_path / "orders-0").exists()
        await cluster.stop()

    run(story())


def test_a_replica_on_a_replaced_disk_is_begun_anew_once_others_have_it_all(tmp_path: Path) -> None:
    async def story() -> None:
        image, disks = MetadataImage(), [Uuid(b"another-disk-id!"), Uuid(b"the-disk-of-two!")]
        image.replay_all(topic_of(replicas=[NODE, 2], isr=[NODE, 2], leader=2, directories=disks))
        await (cluster := Cluster(tmp_path, image=image)).start()
        for isr, eligible in ([2], [NODE]), ([], []), ([2], []):
            assert cluster.partitions.get("orders", 0) is None
            elr = {"eligible_leader_replicas": eligible}
            await cluster.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=isr, **elr))
        assert cluster.get().log.log_end_offset == 0
        await cluster.stop()

    run(story())


def test_a_fetch_that_needs_an_index_which_is_being_written_finds_nothing_yet_and_is_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        partition = opened(tmp_path)
        fill(partition, 2)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def fetch_in_vain(*args: object, **options: object) -> bytes:
            raise IndexBeingRepaired(done)

        with monkeypatch.context() as patch:
            patch.setattr(partition.log, "fetch", fetch_in_vain)
            fetch = read(partition, asked(), read_committed=True)
        assert (fetch.error_code, fetch.records, fetch.high_watermark) == (0, b"", 2)
        watcher = Notes(patience=9)
        partition.watchers[watcher] = None
        done.set_result(None)
        await asyncio.sleep(0)
        assert watcher.told == ["changed"]
        assert len(read(partition, asked()).records) == 2 * len(ONE)

    asyncio.run(scenario())
