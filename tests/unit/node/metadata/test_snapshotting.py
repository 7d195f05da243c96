"""Image snapshots: when they are written, what is deleted behind them, and which one is loaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.core.metadata.records import MetadataError
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.metadata.snapshotting import SNAPSHOTS_KEPT, SnapshotPolicy, kept_bytes
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.snapshots import (
    InvalidSnapshot,
    SnapshotId,
    list_snapshots,
    read_bootstrap_records,
    read_snapshot,
)
from barnabas.node.raft.voters import voters_record
from barnabas.wire.records.raft import KRaftVersionRecord
from tests.support.waiting import until

if TYPE_CHECKING:
    from conftest import Directory, Member

EAGER = SnapshotPolicy(max_bytes_between=1, retention_bytes=0)
NEVER = SnapshotPolicy(max_interval_ms=0)


async def with_snapshot(controller: Member, directory: Directory, name: str) -> SnapshotId:
    """Creates a topic and waits for the snapshot that contains it and for the cleaning behind it."""
    await controller.submit(directory.create_topic(name))
    expected = SnapshotId(controller.image.offset + 1, controller.raft.epoch)
    await until(lambda: list_snapshots(directory.log)[0] == expected and len(list_snapshots(directory.log)) <= 2)
    return expected


def segments(directory: Directory) -> list[int]:
    return sorted(int(path.stem) for path in directory.log.glob("*.log"))


async def test_a_snapshot_is_written_after_so_many_bytes_and_holds_the_image(directory: Directory) -> None:
    async with directory.running(snapshots=EAGER) as controller:
        snapshot_id = await with_snapshot(controller, directory, "orders")
        assert snapshot_id.file_name == f"{controller.image.offset + 1:020}-0000000001.checkpoint"
        content = read_snapshot(directory.log / snapshot_id.file_name)
        assert content.control_records[1:3] == [
            KRaftVersionRecord(k_raft_version=1),
            voters_record(1, directory.id, [directory.controller]),
        ]
        assert content.last_contained_log_timestamp_ms == directory.now_ms
        image = MetadataImage(features={"kraft.version": 1}, offset=controller.image.offset, epoch=1)
        image.replay_all(content.records)
        assert image == controller.image


async def test_a_snapshot_is_written_after_some_time_if_anything_happened(directory: Directory) -> None:
    async with directory.running(snapshots=SnapshotPolicy(max_interval_ms=10, retention_bytes=0)) as controller:
        await until(lambda: len(list_snapshots(directory.log)) == 2)
        first = list_snapshots(directory.log)[0]
        assert first.end_offset == controller.image.offset + 1
        await with_snapshot(controller, directory, "orders")


async def test_with_neither_bytes_nor_time_there_is_none(directory: Directory) -> None:
    async with directory.running(snapshots=NEVER) as controller:
        await controller.submit(directory.create_topic("orders"))
        assert controller.snapshotting._timer is None
        assert len(list_snapshots(directory.log)) == 1


async def test_two_snapshots_are_kept_and_the_log_from_the_older_one_on(directory: Directory) -> None:
    async with directory.running(snapshots=EAGER) as controller:
        for index in range(4):
            kept = list_snapshots(directory.log)[0]
            latest = await with_snapshot(controller, directory, f"t{index}")
        await until(lambda: segments(directory)[0] >= kept.end_offset)
        assert list_snapshots(directory.log) == [latest, kept]
        assert segments(directory)[0] == kept.end_offset
        topics = set(controller.image.topics)
    async with directory.running(snapshots=NEVER) as controller:
        assert set(controller.image.topics) == topics
        assert controller.image.topics["t0"].partitions[0].leader == 1


async def test_older_snapshots_and_their_log_are_kept_while_they_are_small_and_young(directory: Directory) -> None:
    def is_snapshot_done(controller: Member) -> bool:
        newest = list_snapshots(directory.log)[0].end_offset
        return newest == controller.image.offset + 1 and not controller.raft._is_writing

    async def write(policy: SnapshotPolicy, *names: str) -> None:
        async with directory.running(snapshots=policy) as controller:
            for name in names:
                await controller.submit(directory.create_topic(name))
                await until(lambda: is_snapshot_done(controller))

    await write(SnapshotPolicy(max_bytes_between=1), "a", "b", "c")
    snapshots = list_snapshots(directory.log)
    assert len(snapshots) >= 4
    assert segments(directory)[0] == 0
    whole = kept_bytes(directory.log, snapshots[-2])
    assert kept_bytes(directory.log, snapshots[1]) < whole < kept_bytes(directory.log, snapshots[-1])

    await write(SnapshotPolicy(max_bytes_between=1, retention_bytes=whole), "d")
    by_size = list_snapshots(directory.log)
    assert SNAPSHOTS_KEPT < len(by_size) <= len(snapshots)
    assert segments(directory)[0] <= by_size[-1].end_offset < segments(directory)[1]

    directory.now_ms += 1000
    await write(SnapshotPolicy(max_bytes_between=1, retention_ms=999), "e", "f")
    by_age = list_snapshots(directory.log)
    assert not set(by_age) & set(by_size)
    assert segments(directory)[0] <= by_age[-1].end_offset < segments(directory)[1]
    assert set(directory.load().image.topics) == {"a", "b", "c", "d", "e", "f"}


@pytest.fixture
def kept(directory: Directory) -> Directory:
    """Two snapshots, and the log from the older one on."""

    async def story() -> None:
        async with directory.running(snapshots=EAGER) as controller:
            for index in range(4):
                await with_snapshot(controller, directory, f"t{index}")
            await until(lambda: segments(directory)[0] > 0)

    asyncio.run(story())
    return directory


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def empty_it(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [damage, cut, empty_it])
def test_a_damaged_snapshot_is_skipped_if_the_older_one_and_the_log_suffice(
    kept: Directory, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    whole = kept.load()
    newest, older = list_snapshots(kept.log)[:2]
    assert whole.snapshot_id == newest
    harm(kept.log / newest.file_name)
    with caplog.at_level(logging.WARNING):
        loaded = kept.load()
    assert loaded.snapshot_id == older
    assert loaded.image == whole.image
    assert "A metadata snapshot is skipped" in caplog.text


def test_two_damaged_snapshots_are_too_many(kept: Directory) -> None:
    for snapshot_id in list_snapshots(kept.log):
        damage(kept.log / snapshot_id.file_name)
    before = kept.files()
    with pytest.raises(StartError, match=r"the log begins at offset .*, and no whole snapshot reaches it"):
        kept.open()
    assert kept.files() == before


def test_a_damaged_snapshot_beyond_the_log_is_refused(kept: Directory) -> None:
    newest = list_snapshots(kept.log)[0]
    damage(kept.log / newest.file_name)
    beyond = kept.log / SnapshotId(newest.end_offset + 1000, newest.epoch).file_name
    (kept.log / newest.file_name).rename(beyond)
    with pytest.raises(StartError, match="cannot be read, and the log ends before it"):
        kept.open()


def test_damage_in_an_older_segment_is_refused(directory: Directory) -> None:
    async def story() -> None:
        async with directory.running(snapshots=EAGER) as controller:
            await with_snapshot(controller, directory, "a")

    asyncio.run(story())
    for snapshot_id in list_snapshots(directory.log):
        (directory.log / snapshot_id.file_name).unlink()
    damage(directory.log / f"{0:020}.log")
    with pytest.raises(StartError, match="is damaged at position"):
        directory.open()


async def test_damage_that_a_snapshot_covers_costs_nothing(kept: Directory) -> None:
    before, (first, *others) = set(kept.load().image.topics), segments(kept)
    assert others
    damage(kept.log / f"{first:020}.log")
    async with kept.running(snapshots=NEVER) as controller:
        assert set(controller.image.topics) == before
    assert segments(kept) == [first, *others]


async def test_a_log_that_ends_before_the_snapshot_continues_behind_it(kept: Directory) -> None:
    newest = list_snapshots(kept.log)[0]
    for path in kept.log.glob("0*.*"):
        if path.suffix != ".checkpoint":
            path.unlink()
    async with kept.running(snapshots=NEVER) as controller:
        assert set(controller.image.topics) == {"t0", "t1", "t2", "t3"}
        assert controller.raft.log.start_offset == newest.end_offset
    assert kept.load().end_offset > newest.end_offset


async def test_a_snapshot_that_cannot_be_written_harms_nobody(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from barnabas.node.metadata import snapshotting

    def fail(path: Path, parts: list[bytes]) -> None:
        raise OSError("No space left on device")

    async with directory.running(snapshots=EAGER) as controller:
        await with_snapshot(controller, directory, "first")
        monkeypatch.setattr(snapshotting, "_write_file", fail)
        await controller.submit(directory.create_topic("orders"))
        await until(lambda: "could not write the metadata snapshot" in caplog.text)
        assert controller.raft.failure is None
        assert await controller.submit(directory.create_topic("more")) == "created"


def test_a_file_without_header_or_footer_is_no_snapshot(directory: Directory) -> None:
    path = directory.log / "00000000000000000000-0000000000.checkpoint"
    data = path.read_bytes()
    for wrong in (data[166:], data[:166], data + b"\0", b""):
        path.write_bytes(wrong)
        with pytest.raises(InvalidSnapshot):
            read_snapshot(path)


def test_a_damaged_bootstrap_checkpoint_refuses_the_start(directory: Directory) -> None:
    damage(directory.root / "bootstrap.checkpoint")
    with pytest.raises(MetadataError, match="is not whole"):
        read_bootstrap_records(directory.root)
    with pytest.raises(StartError, match="is not whole"):
        directory.open()


async def test_a_large_image_is_encoded_in_slices_while_the_loop_goes_on(directory: Directory) -> None:
    async with directory.running(snapshots=NEVER) as controller:
        await asyncio.gather(*(controller.submit(directory.create_topic(f"topic-{index}")) for index in range(500)))
        snapshotting = controller.snapshotting
        snapshotting._begin()
        turns = 0
        while snapshotting._task is not None:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1000 // 64
        newest = list_snapshots(directory.log)[0]
        assert len(read_snapshot(directory.log / newest.file_name).records) > 1000


async def test_a_log_that_is_twice_its_snapshot_gets_a_new_one_before_the_limit(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.node.metadata import snapshotting

    monkeypatch.setattr(snapshotting, "BYTES_REPLAYED_EASILY", 2000)
    async with directory.running(snapshots=SnapshotPolicy(retention_bytes=0)) as controller:
        for index in range(40):
            await controller.submit(directory.create_topic(f"t{index}"))
        await until(lambda: len(list_snapshots(directory.log)) == 2)
        assert controller.snapshotting._latest_bytes > 2000
