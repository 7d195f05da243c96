"""The producers of a log: a snapshot, and the batches behind it, of which there are none after a clean stop."""

from __future__ import annotations

import logging

from barnabas.node.storage.producer_state import ProducerState
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.segment.segments import Segments
from barnabas.wire.batch import BatchHeader
from barnabas.wire.errors import KafkaError

logger = logging.getLogger("barnabas.storage")


def load_producers(
    producers: ProducerState, segments: Segments, log_start_offset: int, log_end_offset: int, now_ms: int
) -> None:
    """Snapshots from behind the end tell of batches that are gone."""
    producers.remove_snapshots(after=log_end_offset)
    producers.load(log_start_offset, log_end_offset, now_ms)
    known = producers.map_end_offset
    for segment in segments.from_offset(known) if known < log_end_offset else ():
        for header, _, view, at in recovery.scan(segment.file.fileno(), segment.size):
            if header.producer_id >= 0 and header.last_offset >= known:
                _replay(producers, header, view, at)
    producers.map_end_offset = log_end_offset


def _replay(producers: ProducerState, header: BatchHeader, view: memoryview, at: int) -> None:
    try:
        recovery.ensure_valid(view, at, header)
        producers.update(header, view, at)
    except KafkaError as error:
        logger.error(
            "%s: could not read the producer's batch at offset %d; its sequence number is not known: %s",
            producers.topic_partition,
            header.base_offset,
            error.message,
        )
