"""The indexes of one segment from its batches. The batches are left as they are, whatever they are: what lies below the
recovery point was synced, and an index that is gone or wrong is no reason to give it up."""

from __future__ import annotations

import os

from barnabas.node.storage.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    FileHandles,
    PooledFile,
    offset_name,
)
from barnabas.node.storage.offset_index import OffsetIndex
from barnabas.node.storage.recovery import Job, Scanner, scan
from barnabas.node.storage.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.txn_index import AbortedTransaction, TransactionIndex
from barnabas.wire.errors import KafkaError


def rebuild_indexes(directory: str, base_offset: int, index_interval_bytes: int, suffix: str = "") -> None:
    """Synced: nobody flushes what lies below the recovery point."""
    handles = FileHandles()

    def file(kind: str) -> PooledFile:
        return PooledFile(handles, directory, offset_name(base_offset, kind) + suffix)

    log = file(LOG_SUFFIX)
    offsets = OffsetIndex(file(INDEX_SUFFIX), base_offset, new=True)
    times = TimeIndex(file(TIME_INDEX_SUFFIX), base_offset, new=True)
    indexed, next_offset = 0, base_offset
    max_timestamp, max_at = NO_TIMESTAMP, base_offset
    for header, position, _, _ in scan(log.fileno(), log.size()):
        if header.base_offset < next_offset:
            continue
        next_offset = header.last_offset + 1
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_at = header.max_timestamp, header.last_offset
        if position - indexed > index_interval_bytes:
            offsets.append(header.last_offset, position)
            times.maybe_append(max_timestamp, max_at)
            indexed = position
    times.maybe_append(max_timestamp, max_at)
    for index in (offsets, times):
        index.write(trim=True)
        os.fsync(index.file.fileno())
        index.file.close()
    log.close()


def rebuild_transactions(index: TransactionIndex, bases: list[int], slot: int) -> None:
    """Which transactions were aborted in a segment of these, from the producers' snapshots and the batches."""
    scanner = Scanner(Job(index.file.directory, 0, 0, 0, now_ms=0))
    scanner.load_producers(bases, slot)
    log = scanner.file(bases[slot], LOG_SUFFIX)
    found: list[AbortedTransaction] = []
    for header, _, view, at in scan(log.fileno(), log.size()):
        if header.producer_id >= 0:
            try:
                aborted = scanner.producers.update(header, view, at)
            except KafkaError:
                continue  # a damaged batch, which nobody will be given
            if aborted is not None:
                found.append(aborted)
    log.close()
    index.clear()
    for aborted in found:
        index.append(aborted)
    os.fsync(index.file.fileno())
