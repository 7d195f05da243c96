"""A log against its model: a list of batches. Whatever is done in whatever order, both agree, also after restarts."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.node.storage.segment import segment as segment_module
from barnabas.wire.batch import BatchHeader, Record, build_batch, read_header
from tests.support.log_reading import iterate, offset_for_timestamp

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=150, file_delete_delay_ms=0)
RING_BATCHES = 3


class LogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.patches = ExitStack()
        self.patches.enter_context(patch.object(segment_module, "RING_BATCHES", RING_BATCHES))
        for sync in ("os.fsync", "barnabas.node.storage.directory.flush_task.fdatasync"):
            self.patches.enter_context(patch(sync))  # the disk's part is not what is looked at here
        self.log = create_log(f"{self.root}/t-0", "t", 0, CONFIG, now_ms=0)
        self.batches: list[BatchHeader] = []
        self.start = self.end = self.epoch = 0
        self.clock = 1_000

    def teardown(self) -> None:
        self.log.close(clean=False)
        self.patches.close()
        shutil.rmtree(self.root)

    @rule(count=st.integers(1, 6), size=st.integers(0, 150), step=st.integers(-5, 20), idempotent=st.booleans())
    def append(self, count: int, size: int, step: int, idempotent: bool) -> None:
        self.clock = max(self.clock + step, 0)
        producer = {}
        if idempotent:
            sequence = sum(
                h.records_count for h in self.batches if h.producer_id == 5 and h.producer_epoch == self.epoch
            )
            producer = {"producer_id": 5, "producer_epoch": self.epoch, "base_sequence": sequence}
        batch = build_batch([Record(i, self.clock, b"k", b"v" * size) for i in range(count)], **producer)
        assert self.log.append(batch, leader_epoch=self.epoch, now_ms=self.clock).first_offset == self.end
        self.batches.append(read_header(batch))
        self.end += count

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """As followers do: between batches."""
        ends = [self.start, *(h.last_offset + 1 for h in self.batches if h.last_offset >= self.start)]
        offset = ends[int(part * (len(ends) - 1))]
        self.log.truncate_to(offset)
        self.batches = [header for header in self.batches if header.last_offset < offset]
        self.end = min(self.end, offset)
        self.epoch += 1

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.start += int(part * (self.end - self.start))
        self.log.advance_log_start_offset(self.start)
        self.epoch += 1

    @rule()
    def lead_again(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.clock)

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        recovery_point = self.log.recovery_point
        self.log.close(clean=clean)
        producers = {each.producer_id: each for each in self.log.active_producers()}
        self.log = open_log(
            self.log.directory,
            "t",
            0,
            CONFIG,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
            now_ms=self.clock,
        )
        known_end = max((header.last_offset + 1 for header in self.batches), default=self.start)
        self.end = max(known_end, self.start, self.log.active_segment.base_offset)
        for producer in self.log.active_producers():
            assert producers.get(producer.producer_id, producer) == producer
        if clean and known_end >= self.start:
            assert len(self.log.active_producers()) == len(producers)

    @invariant()
    def log_and_model_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        alive = [header for header in self.batches if header.last_offset >= self.start]
        assert [read_header(batch) for batch in iterate(log)] == alive
        assert log.size_bytes >= sum(header.size for header in alive)
        for header in alive[:: max(len(alive) // 5, 1)]:
            offset = max(header.last_offset, self.start)
            assert read_header(log.read(offset, 1)) == header
            assert log.epochs.epoch_for_offset(offset) == header.leader_epoch
        timestamps = [(header.max_timestamp, header) for header in alive]
        if timestamps:
            target = timestamps[len(timestamps) // 2][0]
            found = offset_for_timestamp(log, target)
            expected = next(header for timestamp, header in timestamps if timestamp >= target)
            assert found is not None
            assert found.offset == max(expected.base_offset, self.start)


LogModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_log_agrees_with_its_model = LogModel.TestCase
