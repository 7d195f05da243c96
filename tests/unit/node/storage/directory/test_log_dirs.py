from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from barnabas.node.storage.directory import files, flusher, log_dir
from barnabas.node.storage.directory.checkpoints import write_offsets
from barnabas.node.storage.directory.directory_lock import DirectoryLocked
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.log_dir import LogDir, NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs, WrongDirectory
from barnabas.node.storage.directory.meta_properties import BadMetaProperties, parse_properties
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.recovery import loading
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig()
TOPIC_ID = Uuid(bytes(range(16)))
Build = Callable[..., bytearray]


def opened(*paths: Path, **options: object) -> LogDirs:
    dirs = LogDirs(list(paths), **options)  # type: ignore[arg-type]
    dirs.identify("cluster", 1)
    dirs.begin()
    return dirs


def new(partition: int = 0, topic: str = "orders", **options: object) -> NewPartition:
    return NewPartition(topic, partition, TOPIC_ID, CONFIG, **options)  # type: ignore[arg-type]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))  # type: ignore[arg-type]


def open_handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def append(log: PartitionLog, batch: bytearray) -> int:
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset


def test_partitions_are_found_again_after_a_clean_stop(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        logs = await dirs.create_partitions([new(0), new(1), new(0, "a-b.c_d")], now_ms=NOW_MS)
        append(logs[0], batch(10, pid=4))
        logs[0].advance_log_start_offset(3)
        await dirs.close(clean=True, broker_epoch=17, high_watermarks={("orders", 0): 10, ("other", 0): 1})

        again = opened(tmp_path)
        assert (again.dirs[0].was_clean, again.dirs[0].previous_broker_epoch) == (True, 17)
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert sorted(log.name for log in again) == ["a-b.c_d-0", "orders-0", "orders-1"]
        log = again.get("orders", 0)
        assert log is not None
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (3, 10, 10)
        assert log.topic_id == TOPIC_ID
        assert again.read_high_watermarks() == {("orders", 0): 10}
        assert again.get("orders", 7) is None
        await again.close(clean=False)

    run(scenario)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n3\na-b.c_d 0 0\norders 0 10\norders 1 0\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    assert (tmp_path / "orders-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_new_logs_share_the_limit_of_open_files(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path, max_open_files=4)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        for log in await dirs.create_partitions([new(number) for number in range(20)], now_ms=NOW_MS):
            append(log, batch(1))
        descriptors = [path.resolve() for path in Path("/proc/self/fd").iterdir()] if sys.platform == "linux" else []
        assert sum(path.suffix == ".log" and tmp_path in path.parents for path in descriptors) <= 4
        assert len(dirs.handles) <= 4
        await dirs.close(clean=False)

    run(scenario)


def test_the_mark_of_a_clean_stop_is_kafka_s(tmp_path: Path) -> None:
    async def scenario() -> None:
        await opened(tmp_path).close(clean=True, broker_epoch=13)

    run(scenario)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":13,"transactionIndexes":0}'
    properties = parse_properties((tmp_path / "meta.properties").read_text())
    assert (properties["version"], properties["cluster.id"], properties["node.id"]) == ("1", "cluster", "1")


def test_an_unclean_stop_is_recovered_in_children_if_there_is_much_to_scan(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "INLINE_SCAN_BYTES", 1_000)

    async def scenario() -> None:
        dirs = opened(tmp_path)
        logs = await dirs.create_partitions([new(i) for i in range(5)], now_ms=NOW_MS)
        for i, log in enumerate(logs):
            for j in range(i * 10):
                append(log, batch(10, pid=4, sequence=10 * j))
        await dirs.close(clean=False)
        torn = tmp_path / "orders-4" / "00000000000000000000.log"
        torn.write_bytes(torn.read_bytes() + b"torn")

        again = opened(tmp_path)
        assert not again.dirs[0].was_clean
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert [log.log_end_offset for log in again] == [0, 100, 200, 300, 400]
        assert [log.recovery_point for log in again] == [0] * 5
        assert [producer.last_sequence for log in again for producer in log.active_producers()] == [99, 199, 299, 399]
        assert again.get("orders", 4).epochs.entries() == [(0, 0)]  # type: ignore[union-attr]
        await again.close(clean=False)

    run(scenario)


def test_a_directory_is_locked_against_other_processes_and_ourselves(tmp_path: Path) -> None:
    dirs = LogDirs([tmp_path])
    with pytest.raises(DirectoryLocked, match="this process already"):
        LogDirs([tmp_path])
    code = f"from barnabas.node.storage.directory.log_dirs import LogDirs; LogDirs([{str(tmp_path)!r}])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert "is in use by another process" in other.stderr
    dirs.dirs[0].release()
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_directories_of_another_cluster_or_node_are_refused(tmp_path: Path) -> None:
    first = opened(tmp_path / "a")
    with pytest.raises(WrongDirectory, match="belongs to cluster cluster, not to other"):
        first.identify("other", 1)
    with pytest.raises(WrongDirectory, match="belongs to node 1, not to node 2"):
        first.identify("cluster", 2)
    first.dirs[0].release()
    second = LogDirs([tmp_path / "b"])
    second.identify("cluster", 2)
    second.dirs[0].release()
    both = LogDirs([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(WrongDirectory, match="belongs to node 2 of cluster cluster, but"):
        both.meta()
    for each in both.dirs:
        each.release()


@pytest.mark.parametrize(
    "text",
    [
        "version=0\nbroker.id=1\n",
        "version=1\nnode.id=1\n",
        "nonsense",
        "version=1\nnode.id=x\ncluster.id=c\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\n",
    ],
)
def test_a_meta_properties_we_do_not_understand_is_refused_and_nothing_stays_locked(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(BadMetaProperties):
        LogDirs([tmp_path])
    (tmp_path / "meta.properties").unlink()
    LogDirs([tmp_path]).dirs[0].release()


def test_new_partitions_go_where_they_are_wanted_or_where_there_are_fewest(tmp_path: Path) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path / "a", tmp_path / "b")
        wanted = dirs.dirs[1].directory_id
        await dirs.create_partitions([new(i, directory_id=wanted) for i in range(3)], now_ms=NOW_MS)
        await dirs.create_partitions([new(i) for i in range(3, 8)], now_ms=NOW_MS)
        assert [len(each.logs) for each in dirs.dirs] == [4, 4]
        assert {log.partition for log in dirs.dirs[1].logs.values()} >= {0, 1, 2}
        await dirs.close(clean=True)

    run(scenario)


def test_creating_again_keeps_the_log_of_the_same_topic_and_replaces_that_of_another(
    tmp_path: Path, batch: Build
) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log] = await dirs.create_partitions([new()], now_ms=NOW_MS)
        append(log, batch(3))
        assert await dirs.create_partitions([new()], now_ms=NOW_MS) == [log]
        other = NewPartition("orders", 0, Uuid(bytes(15) + b"\7"), CONFIG)
        [replaced] = await dirs.create_partitions([other], now_ms=NOW_MS)
        assert replaced.log_end_offset == 0
        assert append(replaced, batch(2)) == 0
        await dirs.close(clean=True)

    run(scenario)


def test_a_deleted_partition_is_out_of_the_way_at_once_and_gone_after_its_delay(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        soon = NewPartition("orders", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=100))
        logs = await dirs.create_partitions([soon, new(1)], now_ms=NOW_MS)
        append(logs[0], batch(3))
        dirs.dirs[0].flush_later(logs[0])
        dirs.dir_of(logs[0]).remove(logs[0])
        assert not (tmp_path / "orders-0").exists()
        [waiting] = tmp_path.glob("orders-0.*-delete")
        assert list(waiting.glob("*.log"))
        await until(lambda: not waiting.exists())
        assert dirs.get("orders", 0) is None
        with pytest.raises(KafkaError) as refused:
            append(logs[0], batch(3))
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        [again] = await dirs.create_partitions([new(0)], now_ms=NOW_MS)
        assert append(again, batch(1)) == 0
        assert dirs.dirs[0].offline is None
        await dirs.close(clean=True)

    run(scenario)


def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(tmp_path: Path) -> None:
    stray = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    kept = tmp_path / "orders-1.0123456789abcdef0123456789abcdef-stray"
    for path in (stray, kept, tmp_path / "lost+found"):
        path.mkdir()

    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert list(dirs) == []
        await dirs.close(clean=True)

    run(scenario)
    assert not stray.exists()
    assert kept.exists()


def test_deleted_segments_stay_for_their_delay_and_go(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        config = LogConfig(segment_bytes=3 * len(batch(10)), file_delete_delay_ms=150)
        [log] = await dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, config)], now_ms=NOW_MS)
        for _ in range(10):
            append(log, batch(10))
        log.advance_log_start_offset(95)
        directory = tmp_path / "orders-0"
        await until(lambda: len(list(directory.glob("*.log.deleted"))) == 3)
        await until(lambda: not list(directory.glob("*.deleted")))
        await dirs.close(clean=True)

    run(scenario)


def test_waiters_of_one_tick_share_an_fsync(tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = files.fdatasync
    monkeypatch.setattr(
        "barnabas.node.storage.directory.flush_task.fdatasync", lambda fd: synced.append(real(fd) or fd)
    )

    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log, other] = await dirs.create_partitions([new(0), new(1)], now_ms=NOW_MS)
        waiters = []
        for _ in range(50):
            append(log, batch(1))
            waiters.append(dirs.sync(log))
        append(other, batch(1))
        waiters.append(dirs.sync(other))
        assert log.recovery_point == 0
        assert await asyncio.gather(*waiters) == [50] * 50 + [1]
        assert len(synced) == 2
        assert (log.recovery_point, other.recovery_point) == (50, 1)
        await dirs.close(clean=False)

    run(scenario)


def test_a_sync_that_comes_during_another_covers_what_was_appended_before_it(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log] = await dirs.create_partitions([new(0)], now_ms=NOW_MS)
        append(log, batch(1))
        first = dirs.sync(log)
        await asyncio.sleep(0)
        append(log, batch(1))
        second = dirs.sync(log)
        assert await first == 1
        assert await second == 2
        await dirs.close(clean=False)

    run(scenario)


def test_a_failed_fsync_takes_the_directory_offline_and_is_not_repeated(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def failing(fd: int) -> None:
        attempts.append(fd)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("barnabas.node.storage.directory.flush_task.fdatasync", failing)
    failures: list[tuple[LogDir, OSError]] = []

    async def scenario() -> None:
        dirs = opened(tmp_path / "a", tmp_path / "b", on_failure=lambda *failure: failures.append(failure))
        broken, healthy = dirs.dirs
        [log] = await dirs.create_partitions([new(0, directory_id=broken.directory_id)], now_ms=NOW_MS)
        append(log, batch(1))
        with pytest.raises(KafkaError) as refused:
            await dirs.sync(log)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [failure[0] for failure in failures] == [broken]
        assert dirs.online == [healthy]
        assert (log.recovery_point, log.offline, len(attempts)) == (0, True, 1)
        with pytest.raises(KafkaError):
            append(log, batch(1))
        [elsewhere] = await dirs.create_partitions([new(1, directory_id=broken.directory_id)], now_ms=NOW_MS)
        assert dirs.dir_of(elsewhere) is healthy
        monkeypatch.undo()
        await dirs.close(clean=True)

    run(scenario)
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_flush_ms_is_honoured(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        config = LogConfig(flush_ms=1_000)
        [log] = await dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, config)], now_ms=NOW_MS)
        append(log, batch(1))
        dirs.flush_overdue(NOW_MS + 999)
        dirs.flush_overdue(NOW_MS + 1_000)
        await until(lambda: log.recovery_point == 1)
        await dirs.close(clean=True)

    run(scenario)


def test_a_rolled_segment_is_flushed_in_the_background(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        config = LogConfig(segment_bytes=len(batch(10)) + 1)
        [log] = await dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, config)], now_ms=NOW_MS)
        append(log, batch(10))
        append(log, batch(10))
        await until(lambda: log.recovery_point == 20)
        assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
        await dirs.write_checkpoints()
        await dirs.close(clean=False)

    run(scenario)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 20\n"


def test_the_metadata_log_beside_the_partitions_is_none_of_them(tmp_path: Path, batch: Build) -> None:
    path = tmp_path / "__cluster_metadata-0"
    log = create_log(path, "__cluster_metadata", 0, CONFIG, now_ms=NOW_MS)
    log.append(batch(2), leader_epoch=1, now_ms=NOW_MS, origin=Origin.QUORUM)
    log.close(clean=True)

    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert list(dirs) == []
        await dirs.close(clean=True)

    run(scenario)


def test_a_thousand_partitions_with_a_few_handles(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path, max_open_files=50)
        logs = await dirs.create_partitions([new(i) for i in range(1_000)], now_ms=NOW_MS)
        assert len(dirs.handles) <= 50
        for log in logs[:300]:
            append(log, batch(1))
        for log in logs[:300]:
            assert log.read(0, 1_000)
        handles_before = open_handles()
        await asyncio.gather(*(dirs.sync(log) for log in logs[:300]))
        assert open_handles() <= handles_before
        await dirs.close(clean=True)
        again = opened(tmp_path, max_open_files=50)
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert sum(log.log_end_offset for log in again) == 300
        await again.close(clean=False)

    run(scenario)


def test_a_damaged_checkpoint_costs_a_longer_scan_and_nothing_else(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log] = await dirs.create_partitions([new()], now_ms=NOW_MS)
        append(log, batch(5))
        await dirs.close(clean=False)
        (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"\xff\xfe")
        (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
        again = opened(tmp_path)
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert [log.log_end_offset for log in again] == [5]
        await again.close(clean=True)
        assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text())["version"] == 0

    run(scenario)


def test_a_checkpoint_that_says_nothing_new_is_not_written(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def write(directory: str, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        written.append(f"{name} {dict(offsets)}")
        write_offsets(directory, name, offsets)

    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        [log] = await dirs.create_partitions([new()], now_ms=NOW_MS)
        monkeypatch.setattr(log_dir, "write_offsets", write)
        for _ in range(3):
            await dirs.write_checkpoints()
        assert written == ["log-start-offset-checkpoint {}", "recovery-point-offset-checkpoint {('orders', 0): 0}"]
        append(log, batch(10))
        await dirs.sync(log)
        for high_watermark in (9, 10, 10):
            await dirs.write_checkpoints({("orders", 0): high_watermark})
        assert written[2:] == [
            "recovery-point-offset-checkpoint {('orders', 0): 10}",
            "replication-offset-checkpoint {('orders', 0): 9}",
            "replication-offset-checkpoint {('orders', 0): 10}",
        ]
        await dirs.close(clean=True, high_watermarks={("orders", 0): 10})
        assert len(written) == 5

    run(scenario)


def test_a_recovery_point_above_the_end_is_corrected_before_anything_is_appended(tmp_path: Path, batch: Build) -> None:
    """Left by a truncation that a crash cut short: what comes next would seem to be on the disk already."""

    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log] = await dirs.create_partitions([new()], now_ms=NOW_MS)
        append(log, batch(5))
        await dirs.close(clean=False)
        (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 9\n")
        again = opened(tmp_path)
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 5\n"
        await again.close(clean=False)

    run(scenario)


def test_a_deleted_partition_touches_nothing_of_the_one_that_follows_under_its_name(
    tmp_path: Path, batch: Build
) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        (old,) = await dirs.create_partitions([new()], now_ms=NOW_MS)
        append(old, batch(10))
        old.roll(now_ms=NOW_MS)
        append(old, batch(10, value=b"old"))
        being_sent = old.fetch(10, 1 << 20, upper_bound_offset=20, min_one_batch=True, eager_bytes=0)
        sent = old.read(10, 1 << 20)
        dirs.dir_of(old).remove(old)
        follows = new()._replace(topic_id=Uuid.random())
        (young,) = await dirs.create_partitions([follows], now_ms=NOW_MS)
        young.log_end_offset = 10  # its second segment has the name of the old one's
        young.roll(now_ms=NOW_MS)
        append(young, batch(10, value=b"new"))
        assert isinstance(being_sent, files.FileRange)
        assert being_sent.read(0, len(being_sent)) == sent
        before = sorted(path.name for path in Path(young.directory).iterdir())
        for segment in old.segments:
            for file in segment.files():
                file.fileno()
        assert sorted(path.name for path in Path(young.directory).iterdir()) == before
        await dirs.close(clean=False)

    run(scenario)


def test_a_flush_that_was_asked_for_before_a_deletion_makes_no_files_in_the_directory_that_follows(
    tmp_path: Path, batch: Build
) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        (old,) = await dirs.create_partitions([new()], now_ms=NOW_MS)
        append(old, batch(10))
        old.roll(now_ms=NOW_MS)
        dirs.dir_of(old).remove(old)
        directory = dirs.dirs[0]
        directory.make_directories([new()._replace(topic_id=Uuid.random())])
        with pytest.raises(KafkaError):
            await directory.sync(old)
        assert sorted(path.name for path in (tmp_path / "orders-0").iterdir()) == [
            "00000000000000000000.log",
            "partition.metadata",
        ]
        assert directory.offline is None
        await dirs.close(clean=False)

    run(scenario)


def test_a_topic_made_anew_is_not_taken_for_the_one_before_it(tmp_path: Path, batch: Build) -> None:
    """What the checkpoints say of a deleted partition would have the new one begin behind its own records."""

    async def scenario() -> None:
        dirs = opened(tmp_path)
        [log, other] = await dirs.create_partitions([new(0), new(1)], now_ms=NOW_MS)
        for each in (log, other):
            append(each, batch(100))
            each.advance_log_start_offset(90)
            await dirs.sync(each)
        await dirs.write_checkpoints({("orders", 0): 100, ("orders", 1): 100})
        await dirs.close(clean=True)

        again = opened(tmp_path)
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS)
        again.read_high_watermarks()
        gone = next(found for found in again if found.partition == 0)
        again.dir_of(gone).remove(gone)
        another = NewPartition("orders", 0, Uuid(bytes(range(1, 17))), CONFIG)
        [log] = await again.create_partitions([another], now_ms=NOW_MS)
        append(log, batch(10))
        await again.sync(log)
        assert again.dirs[0].checkpointed == {("orders", 1): 100}
        await again.close(clean=False)

        last = opened(tmp_path)
        await last.load(lambda topic: CONFIG, now_ms=NOW_MS)
        ranges = {found.partition: (found.log_start_offset, found.log_end_offset) for found in last}
        assert ranges == {0: (0, 10), 1: (90, 100)}
        assert last.read_high_watermarks() == {("orders", 1): 100}
        await last.close(clean=True)

    run(scenario)


def test_a_log_that_rolls_faster_than_its_disk_is_flushed_in_several_rounds(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of handles at once would be more than a process has, and a disk without handles counts as a bad one."""
    held: list[int] = []
    run_all = flusher.run_all

    def counting(tasks: list[FlushTask]) -> None:
        held.append(sum(len(task.fds) for task in tasks))
        run_all(tasks)

    monkeypatch.setattr(flusher, "run_all", counting)
    monkeypatch.setattr(flusher, "SEGMENTS_PER_ROUND", 8)

    async def scenario() -> None:
        dirs = opened(tmp_path)
        config = LogConfig(segment_bytes=len(batch(1)))
        wanted = [NewPartition("orders", index, TOPIC_ID, config) for index in range(3)]
        logs = await dirs.create_partitions(wanted, now_ms=NOW_MS)
        for log in logs:
            for _ in range(50):
                append(log, batch(1))
        waiters = [dirs.sync(log) for log in logs]
        append(logs[0], batch(1))
        assert all(point >= 50 for point in await asyncio.gather(*waiters))
        assert max(held) <= 8 * 4
        await dirs.close(clean=True)

    run(scenario)


def test_a_new_log_never_begins_where_segments_are(
    tmp_path: Path, batch: Build, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        dirs = opened(tmp_path)
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        (tmp_path / "orders-0").mkdir()
        (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(bytes(batch(3)))
        (tmp_path / "orders-1").mkdir()  # making it was cut short
        (tmp_path / "orders-1" / "00000000000000000000.log").touch()
        logs = await dirs.create_partitions([new(0), new(1)], now_ms=NOW_MS)
        assert [log.log_end_offset for log in logs] == [0, 0]
        append(logs[0], batch(1))
        await dirs.close(clean=True)

    run(scenario)
    [aside] = tmp_path.glob("*-stray")
    assert (aside / "00000000000000000000.log").read_bytes() == bytes(batch(3))
    assert f"it is renamed to {aside.name}" in caplog.text
