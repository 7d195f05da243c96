"""A served share partition over a log with markers, aborted transactions and holes that compaction left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.share.batches import StateBatch, combine
from barnabas.core.share.partition import Acknowledgement, SharePartition
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares.persister import Known
from barnabas.node.broker.shares.served import ServedPartition
from barnabas.node.broker.shares.settings import DeliverySettings
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.batch import Record, build_batch, stamp
from barnabas.wire.uuids import Uuid

GAP, ACCEPT, RELEASE = 0, 1, 2
MARKERS = {"abort": b"\x00\x00\x00\x00", "commit": b"\x00\x00\x00\x01"}


class Written:
    """What the share coordinator has."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.batches: tuple[StateBatch, ...] = ()

    async def write(self, key: ShareKey, known: Known, start: int, complete: int, batches: list[StateBatch]) -> None:
        self.start_offset = start
        self.batches = combine(self.batches, batches, start)


class Story:
    """`data` are the offsets of records that may be delivered, `markers` those of the ends of transactions."""

    def __init__(self, directory: Path, settings: DeliverySettings) -> None:
        self.log: PartitionLog = create_log(directory / "orders-0", "orders", 0, LogConfig(), now_ms=1)
        self.written = Written()
        self.settings = settings
        self.data: set[int] = set()
        self.markers: set[int] = set()
        self.served = self.lead()

    def lead(self) -> ServedPartition:
        """What a new leader has: what was written."""
        partition: Any = SimpleNamespace(
            is_gone=False,
            is_leader=True,
            leader_epoch=0,
            log=self.log,
            readable_end=lambda committed: self.log.log_end_offset,
        )
        store: Any = self.written
        state = SharePartition(self.written.start_offset, self.written.batches)
        key = ShareKey("g", Uuid(b"t" * 16), 0)
        self.served = ServedPartition(key, partition, Known(0, 0), state, store, lambda: self.settings, lambda: 0)
        return self.served

    def transaction(self, count: int, end: str) -> None:
        self._append(
            [Record(each, 1, b"k", b"v") for each in range(count)], producer_id=7, base_sequence=-1, transactional=True
        )
        if end == "commit":
            self.data |= set(range(self.log.log_end_offset - count, self.log.log_end_offset))
        self._append([Record(0, 1, MARKERS[end], b"\x00\x00\x00\x00\x00\x00")], transactional=True, control=True)
        self.markers.add(self.log.log_end_offset - 1)

    def plain(self, count: int) -> None:
        self._append([Record(each, 1, b"k", b"v") for each in range(count)], producer_id=-1)
        self.data |= set(range(self.log.log_end_offset - count, self.log.log_end_offset))

    def hole(self, count: int) -> None:
        self._skip = count

    _skip = 0

    def _append(self, records: list[Record], *, producer_id: int = 7, **how: Any) -> None:
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, **how)
        stamp(batch, 0, base_offset=self.log.log_end_offset + self._skip, leader_epoch=0)
        self._skip = 0
        self.log.append_as_follower(batch, now_ms=1)

    def take(self, most: int = 100) -> list[tuple[int, int]]:
        taken = self.served.take("anna", most, 1 << 20, exact=False)
        return [(each.first, each.last) for each in taken.acquired]

    async def say(self, kind: int, first: int, last: int) -> None:
        await self.served.acknowledge("anna", [Acknowledgement(first, last, [kind])])


@contextmanager
def story(directory: Path, **settings: Any) -> Iterator[Story]:
    told = Story(directory, DeliverySettings(**{"read_committed": True, "most_deliveries": 1_000, **settings}))
    try:
        yield told
    finally:
        told.log.close(clean=True)


def run(tell: Callable[[], Any]) -> None:
    asyncio.run(tell())


def test_markers_are_given_out_and_aborted_records_are_not(tmp_path: Path) -> None:
    """As in Kafka: consumers say that markers are gaps, and their callbacks hear of it."""

    async def tell() -> None:
        with story(tmp_path) as told:
            told.transaction(5, "commit")  # 0 to 4, and the marker 5
            told.transaction(4, "abort")  # 6 to 9, and the marker 10
            assert told.take() == [(0, 4), (5, 5), (10, 10)]
            await told.say(ACCEPT, 0, 4)
            await told.say(GAP, 10, 10)
            assert told.served.state.start_offset == 5
            told.lead()
            assert told.take() == [(5, 5)]
            await told.say(GAP, 5, 5)
            assert told.take() == []
            assert (told.served.state.start_offset, told.served.state.runs) == (11, [])

    run(tell)


def test_released_records_that_are_compacted_away_are_passed(tmp_path: Path) -> None:
    async def tell() -> None:
        with story(tmp_path) as told:
            told.written.batches = (StateBatch(2, 4, 0, 1), StateBatch(5, 9, 2, 1))
            told.lead()
            told.hole(5)
            told.plain(7)  # 5 to 11
            assert told.take() == [(10, 11)]
            await told.say(ACCEPT, 10, 11)
            assert told.take() == []
            assert (told.served.state.start_offset, told.served.state.runs) == (12, [])

    run(tell)


def test_aborted_records_that_were_delivered_once_are_passed_where_only_committed_ones_are_read(tmp_path: Path) -> None:
    async def tell() -> None:
        with story(tmp_path, read_committed=False) as told:
            told.transaction(3, "abort")  # 0 to 2, and the marker 3
            told.plain(2)  # 4 and 5
            assert told.take() == [(0, 2), (3, 3), (4, 5)]
            await told.say(RELEASE, 0, 2)
            told.settings = DeliverySettings(read_committed=True)
            await told.say(GAP, 3, 3)
            await told.say(ACCEPT, 4, 5)
            assert told.take() == []
            assert (told.served.state.start_offset, told.served.state.runs) == (6, [])

    run(tell)


def test_whoever_does_not_lead_any_more_gives_nothing_out(tmp_path: Path) -> None:
    async def tell() -> None:
        with story(tmp_path) as told:
            told.plain(3)
            partition: Any = told.served.partition
            partition.is_leader = False
            assert told.take() == []
            partition.is_leader = True
            assert told.take() == [(0, 2)]

    run(tell)


@pytest.mark.parametrize("seed", range(60))
def test_each_committed_record_is_delivered_until_it_is_accepted_whatever_lies_between(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)

    async def tell() -> None:
        with story(tmp_path, most_in_flight=random.choice([5, 12, 2_000])) as told:
            held: set[int] = set()
            done: set[int] = set()
            for _ in range(120):
                match random.choices(["write", "take", "say", "lead"], [15, 40, 40, 5])[0]:
                    case "write":
                        if random.random() < 0.2:
                            told.hole(random.randint(1, 4))
                        if random.random() < 0.6:
                            told.transaction(random.randint(1, 6), random.choice(["abort", "commit"]))
                        else:
                            told.plain(random.randint(1, 6))
                    case "take":
                        for first, last in told.take(random.randint(1, 9)):
                            now = set(range(first, last + 1))
                            assert not now & (held | done), f"{now & held} are held, {now & done} done with"
                            assert now <= told.data | told.markers, f"{now - told.data} are no data"
                            held |= now
                    case "say":
                        for offset in random.sample(sorted(held), min(len(held), random.randint(1, 5))):
                            kind = random.choice([GAP if offset in told.markers else ACCEPT, ACCEPT, RELEASE])
                            await told.say(kind, offset, offset)
                            held.discard(offset)
                            if kind != RELEASE:
                                done.add(offset)
                    case "lead":
                        told.lead()
                        held.clear()
            for offset in sorted(held):
                await told.say(ACCEPT, offset, offset)
                done.add(offset)
            while taken := told.take():
                for first, last in taken:
                    await told.say(ACCEPT, first, last)
                    done |= set(range(first, last + 1))
            wanted = told.data | told.markers
            assert done == wanted, f"{sorted(wanted - done)} were never delivered"
            assert (told.served.state.start_offset, told.served.state.runs) == (told.log.log_end_offset, [])

    run(tell)
