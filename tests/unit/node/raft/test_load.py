"""Opening a directory: what is refused, with one sentence and untouched, and what a crash may leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.core.raft import QuorumState
from barnabas.core.raft.records import build_control_batch
from barnabas.node.raft.batches import build_batch
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.quorum_state import write_quorum_state
from barnabas.node.raft.snapshots import small_snapshot
from barnabas.node.raft.voters import voters_record
from barnabas.wire import batch as wire_batch
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.raft import KRaftVersionRecord, VotersRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from conftest import Directory

FIRST_SEGMENT = "00000000000000000000.log"
HARMED = {".log", ".checkpoint", ".index", ""}
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def used(directory: Directory) -> Directory:
    """One with a history: topic `orders`, stopped cleanly."""

    async def story() -> None:
        async with directory.running() as controller:
            await controller.submit(directory.create_topic("orders"))

    asyncio.run(story())
    return directory


def append(directory: Directory, data: bytes) -> None:
    with open(directory.log / FIRST_SEGMENT, "ab") as file:
        file.write(data)


def next_batch(directory: Directory, *records: Record, level: int = 25) -> bytes:
    return build_batch(records, level, base_offset=directory.load().end_offset, epoch=1, now_ms=0)


def unknown_record_type(directory: Directory) -> bytes:
    offset = directory.load().end_offset
    return bytes(wire_batch.build_batch([wire_batch.Record(offset, 0, None, bytes([1, 99, 0]))], leader_epoch=1))


def unknown_record_version(directory: Directory) -> bytes:
    offset = directory.load().end_offset
    return bytes(wire_batch.build_batch([wire_batch.Record(offset, 0, None, bytes([1, 2, 9]))], leader_epoch=1))


def level(number: int) -> Callable[[Directory], bytes]:
    record = wire.FeatureLevelRecord(name="metadata.version", feature_level=number)
    return lambda directory: next_batch(directory, record)


def more_voters(directory: Directory) -> bytes:
    voters = voters_record(1, directory.id, []).voters + voters_record(2, Uuid(b"2" * 16), []).voters
    offset = directory.load().end_offset
    return build_control_batch([VotersRecord(voters=voters)], base_offset=offset, epoch=1, now_ms=0)


def newer_kraft(directory: Directory) -> bytes:
    offset = directory.load().end_offset
    return build_control_batch([KRaftVersionRecord(k_raft_version=2)], base_offset=offset, epoch=1, now_ms=0)


def hole(directory: Directory) -> bytes:
    return build_batch([wire.NoOpRecord()], 25, base_offset=directory.load().end_offset + 5, epoch=1, now_ms=0)


def nonsense(directory: Directory) -> bytes:
    return next_batch(directory, wire.RemoveTopicRecord(topic_id=Uuid(b"x" * 16)))


@pytest.mark.parametrize(
    ("tail", "sentence"),
    [
        (unknown_record_type, r"metadata record type 99 is unknown \(at offset \d+\)"),
        (unknown_record_version, "TopicRecord has no version 9"),
        (level(24), r"metadata.version 24 is not supported: this node reads 25 \(4.0-IV3\) to 30 \(4.3-IV0\)"),
        (level(31), r"metadata.version 31 is not supported"),
        (more_voters, r"has other voters \(1 in directory .*, 2 in directory .*\) than node 1 in directory"),
        (newer_kraft, "has kraft.version 2, which is unknown"),
        (hole, "is missing: the next batch begins at"),
        (nonsense, "names the unknown topic id"),
    ],
)
def test_a_log_that_is_not_for_us_is_refused_untouched(
    used: Directory, tail: Callable[[Directory], bytes], sentence: str
) -> None:
    append(used, tail(used))
    before = used.files()
    with pytest.raises(StartError, match=sentence):
        used.open()
    assert used.files() == before


@pytest.mark.parametrize("number", [24, 31])
def test_a_fresh_directory_of_another_level_is_refused_untouched(directory: Directory, number: int) -> None:
    records = [wire.FeatureLevelRecord(name="metadata.version", feature_level=number)]
    bootstrap = small_snapshot([], records, level=25, last_contained_ms=0, now_ms=0)
    (directory.root / "bootstrap.checkpoint").write_bytes(bootstrap)
    before = directory.files()
    with pytest.raises(StartError, match=f"metadata.version {number} is not supported"):
        directory.open()
    assert directory.files() == before


@pytest.mark.parametrize("number", range(25, 31))
async def test_every_level_that_we_know_is_kept_as_found(directory: Directory, number: int) -> None:
    records: list[Record] = [wire.FeatureLevelRecord(name="metadata.version", feature_level=number)]
    bootstrap = small_snapshot([], records, level=number, last_contained_ms=0, now_ms=0)
    (directory.root / "bootstrap.checkpoint").write_bytes(bootstrap)
    async with directory.running() as controller:
        assert controller.image.metadata_version == number
        await controller.submit(directory.create_topic("orders"))
    loaded = directory.load()
    assert (loaded.level, set(loaded.image.topics)) == (number, {"orders"})


def test_the_quorum_of_another_directory_is_refused(directory: Directory) -> None:
    other = small_snapshot(
        [KRaftVersionRecord(k_raft_version=1), voters_record(1, Uuid(b"elsewhere-dir-id"), [])],
        [],
        level=25,
        last_contained_ms=0,
        now_ms=0,
    )
    (directory.log / FIRST_SNAPSHOT).write_bytes(other)
    with pytest.raises(StartError, match="has other voters"):
        directory.open()


async def test_a_quorum_with_configured_voters_stays_one(directory: Directory) -> None:
    """As `kafka-storage format` without `--standalone` leaves it: no voters in the log, quorum-state version 0."""
    (directory.log / FIRST_SNAPSHOT).unlink()
    async with directory.running() as controller:
        assert "kraft.version" not in controller.image.features
        assert controller.raft.quorum().voters_record is None
    loaded = directory.load()
    assert loaded.quorum_state == QuorumState(leader_id=1, epoch=1, static_voters=(1,), data_version=0)
    async with directory.running() as controller:
        assert controller.raft.epoch == 2


def test_a_quorum_with_other_configured_voters_is_refused(directory: Directory) -> None:
    (directory.log / FIRST_SNAPSHOT).unlink()
    write_quorum_state(directory.log, QuorumState(epoch=4, static_voters=(1, 2, 3), data_version=0))
    with pytest.raises(StartError, match=r"other voters \(1, 2, 3\) than node 1"):
        directory.open()


def test_an_epoch_that_has_no_next_one_is_refused(used: Directory) -> None:
    write_quorum_state(used.log, QuorumState(leader_id=1, epoch=2**31 - 1))
    with pytest.raises(StartError, match="epoch 2147483647 has no next one"):
        used.open()


async def test_the_epoch_of_a_vote_without_a_record_counts(used: Directory) -> None:
    write_quorum_state(used.log, QuorumState(leader_id=1, epoch=9))
    async with used.running() as controller:
        assert controller.raft.epoch == 10


@pytest.mark.parametrize("tail", [b"\0" * 500, b"garbage" * 20, "half"])
async def test_a_torn_tail_is_cut(used: Directory, tail: bytes | str, caplog: pytest.LogCaptureFixture) -> None:
    whole = used.load()
    batch = next_batch(used, wire.NoOpRecord())
    append(used, batch[:-1] if isinstance(tail, str) else tail)
    with caplog.at_level(logging.WARNING):
        loaded = used.load()
    assert loaded.image == whole.image
    assert "torn tail" in caplog.text
    async with used.running() as controller:
        assert "orders" in controller.image.topics
    assert used.load().end_offset > whole.end_offset


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :]


@pytest.mark.parametrize("part", [5, 9, 16, 21, 80], ids=["offset", "length", "magic", "attributes", "record"])
def test_damage_before_the_last_batch_is_no_torn_tail(used: Directory, part: int) -> None:
    path = used.log / FIRST_SEGMENT
    whole = path.read_bytes()
    *_, (position, header), _ = wire_batch.iterate_batches(whole)
    path.write_bytes(flipped(whole, position + part))
    before = used.files()
    with pytest.raises(StartError, match=rf"offset {header.base_offset}\b") as refused:
        used.open()
    assert "is damaged at position" in str(refused.value) or "is missing" in str(refused.value)
    assert used.files() == before


def test_after_a_clean_stop_no_damage_is_a_torn_tail(used: Directory) -> None:
    (used.root / ".kafka_cleanshutdown").touch()
    path = used.log / FIRST_SEGMENT
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StartError, match="although the node stopped cleanly"):
        used.open()


def test_a_first_start_that_was_cut_short_anywhere_is_followed_by_a_whole_one(directory: Directory) -> None:
    async def start() -> dict[str, int]:
        async with directory.running() as controller:
            await controller.submit(directory.create_topic("orders"))
            return dict(controller.image.features)

    fresh = directory.files()
    features = asyncio.run(start())
    whole = (directory.log / FIRST_SEGMENT).read_bytes()
    for length in range(0, len(whole), 23):
        for path in directory.log.iterdir():
            path.unlink()
        for name, data in fresh.items():
            (directory.root / name).write_bytes(data)
        write_quorum_state(directory.log, QuorumState(leader_id=1, epoch=1))
        (directory.log / FIRST_SEGMENT).write_bytes(whole[:length])
        assert asyncio.run(start()) == features
        loaded = directory.load()
        assert (loaded.level, loaded.kraft_version, set(loaded.image.topics)) == (30, 1, {"orders"})
        assert loaded.image.brokers[1].fenced


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_happens_to_the_bytes_the_directory_is_loaded_or_refused(used: Directory, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(path for path in used.log.iterdir() if path.suffix in HARMED)))
    whole = path.read_bytes()
    harmed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        if harmed:
            harmed[data.draw(st.integers(0, len(harmed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(harmed[: data.draw(st.integers(0, len(harmed)))])
    try:
        used.load()
    except StartError:
        pass
    finally:
        path.write_bytes(whole)


async def test_a_transaction_that_was_left_open_is_aborted(used: Directory) -> None:
    topic_record, partition_record = used.topic_records("never")
    append(used, next_batch(used, wire.BeginTransactionRecord(), topic_record, partition_record))
    async with used.running() as controller:
        assert set(controller.image.topics) == {"orders"}
        assert controller.image.transaction is None


async def test_files_that_a_crash_left_half_written_are_removed(used: Directory) -> None:
    leftovers = [
        f"{FIRST_SNAPSHOT}.part",
        f"{FIRST_SNAPSHOT}.deleted",
        "00000000000000000005-0000000001.checkpoint.tmp",
    ]
    for name in leftovers:
        (used.log / name).write_bytes(b"half")
    async with used.running() as controller:
        assert "orders" in controller.image.topics
    assert not {path.name for path in used.log.iterdir()} & set(leftovers)
