"""A log from a directory: empty, as a clean stop left it, or recovered after a crash."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TypedDict, Unpack

from barnabas.node.storage.directory.background import Background
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.partition_metadata import read_partition_metadata
from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.recovery.index_rebuild import write_indexes
from barnabas.node.storage.recovery.producer_replay import load_producers
from barnabas.node.storage.segment.segments import Segments
from barnabas.node.storage.segment.verification import DamagedSegment
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")


class Surroundings(TypedDict, total=False):
    """What logs share with each other."""

    producer_id_expiration_ms: int
    handles: FileHandles | None
    background: Background | None


def create_log(
    directory: str | os.PathLike[str],
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    now_ms: int,
    start_offset: int = 0,
    topic_id: Uuid | None = None,
    files_exist: bool = False,
    **surroundings: Unpack[Surroundings],
) -> PartitionLog:
    """An empty log in a directory that has none. The directory is made, unless somebody did it already."""
    path = os.fspath(directory)
    if not files_exist:
        os.makedirs(path, exist_ok=True)
    log = PartitionLog(path, topic, partition, config, **surroundings)
    log.topic_id = topic_id
    log.start_empty(start_offset, now_ms, touch=not files_exist)
    log.flushes.last_flush_ms = now_ms
    return log


def open_log(
    directory: str | os.PathLike[str],
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    now_ms: int,
    recovered: recovery.Recovered | None = None,
    continuous: bool = False,
    **surroundings: Unpack[Surroundings],
) -> PartitionLog:
    """The log of a directory. Unless it was closed cleanly, it is scanned from the recovery point on.

    `recovered` is what such a scan found if somebody else did it; for `continuous` see `recovery`.
    """
    log = PartitionLog(os.fspath(directory), topic, partition, config, **surroundings)
    job = recovery.Job(
        directory=log.directory,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        index_interval_bytes=config.index_interval_bytes,
        now_ms=now_ms,
        producer_id_expiration_ms=log.producers.expiration_ms,
        continuous=continuous,
    )
    recovery.tidy(log.directory)
    if not clean and recovered is None:
        recovered = recovery.recover(job)
    log.flushes.last_flush_ms = now_ms
    log.topic_id = read_partition_metadata(log.directory)
    if not load(log, log_start_offset, now_ms, recovered):
        logger.warning("%s: the last segment is damaged or lacks an index; scanning it", log.name)
        log.close_files()
        clean = False
        recovered = recovery.recover(job)
        log.segments = Segments(log.segments.handles, log.directory)
        load(log, log_start_offset, now_ms, recovered)
    if not clean:
        # From the segment of the recovery point on, recovery has written them anew.
        known_from = log.segments.from_offset(recovery_point - 1)[0].base_offset
        log.segments.suspect_transaction_indexes(below=known_from)
    log.flushes.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    report_losses(log, recovery_point, recovered)
    if recovered is not None and recovered.has_holes:
        # Were the topic no longer compacted at the next start, the log would be taken to end before the first of them.
        log.flush(now_ms=now_ms)
    return log


def report_losses(log: PartitionLog, recovery_point: int, recovered: recovery.Recovered | None) -> None:
    end = log.log_end_offset
    if end < recovery_point:
        logger.error(
            "%s ends at offset %d, but it was flushed up to offset %d: the records between are lost",
            log.name,
            end,
            recovery_point,
        )
    if recovered is not None and recovered.cut:
        logger.warning(
            "%s: removed the last %d bytes, the log now ends at offset %d: %s",
            log.name,
            recovered.truncated_bytes,
            end,
            recovered.cut,
        )
    if recovered is not None and recovered.damage:
        logger.error("%s: left damaged bytes below the recovery point in place: %s", log.name, recovered.damage)


def report_gone(log: PartitionLog, bases: Sequence[int], log_start_offset: int) -> None:
    for base_offset in bases:
        if base_offset >= log_start_offset:
            logger.error(
                "%s: the file of the segment at offset %d is gone, only its index is there: its records are lost",
                log.name,
                base_offset,
            )


def load(log: PartitionLog, log_start_offset: int, now_ms: int, recovered: recovery.Recovered | None) -> bool:
    """False if the files need recovery after all."""
    names = set(os.listdir(log.directory))
    incomplete = log.segments.load(log.config, now_ms, names)
    if not len(log.segments):
        log.start_empty(log_start_offset, now_ms)
        return True
    bases = [segment.base_offset for segment in log.segments]
    report_gone(log, recovery.gone_between(names, bases) if recovered is None else recovered.gone, log_start_offset)
    active = log.segments.active
    for segment in log.segments:
        if not segment.size and segment is not active and not log.config.compacted:
            logger.error("%s: the segment at offset %d is empty: its records are lost", log.name, segment.base_offset)
    for base_offset in incomplete:
        if base_offset != active.base_offset:
            logger.warning("%s: the segment at offset %d lacks an index; rebuilding it", log.name, base_offset)
            write_indexes(log.directory, base_offset, log.config.index_interval_bytes)
    if active.base_offset in incomplete:
        return False
    try:
        log.log_end_offset = log.with_right_indexes(active.load_end)
    except (OSError, DamagedSegment):
        return False
    log.log_start_offset = max(log_start_offset, log.segments.first_offset)
    if recovered is None:
        log.epochs = LeaderEpochs.load(log.directory)
    else:
        log.epochs = LeaderEpochs(recovered.epochs)
        log.epochs.dirty = log.flushes.directory_changed = True
    learn_first_epochs(log)
    if log.log_end_offset < log.log_start_offset:
        log.remove_segments(log.segments.clear())
        log.epochs.clear()
        log.start_empty(log_start_offset, now_ms)
        return True
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    load_producers(log.producers, log.segments, log.log_start_offset, log.log_end_offset, now_ms)
    if recovered is not None:
        log.producers.recall(recovered.windows)
    return True


def learn_first_epochs(log: PartitionLog) -> None:
    """The start may have fallen back behind what the checkpoint of epochs knows, or the checkpoint may be gone: the
    batches there know theirs."""
    entries = log.epochs.entries()
    known_from = entries[0][1] if entries else log.log_end_offset
    if known_from <= log.log_start_offset:
        return
    found = LeaderEpochs()
    for segment in log.segments.from_offset(log.log_start_offset):
        for _, header in segment.headers(0):
            if header.base_offset >= known_from:
                break
            if header.last_offset >= log.log_start_offset:
                found.assign(header.leader_epoch, max(header.base_offset, log.log_start_offset))
    for epoch, offset in entries:
        found.assign(epoch, offset)
    log.epochs = found
    log.epochs.dirty = True
