"""Compaction done here and now, by the code that the cleaner's process and the node run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.node.storage.cleaning.choice import Dirt, examine
from barnabas.node.storage.cleaning.cleaner import CleanerSettings, job_for
from barnabas.node.storage.cleaning.job import CleanedGroup, Finished
from barnabas.node.storage.cleaning.rewrite import Cleaning
from barnabas.node.storage.cleaning.swap import Swap
from barnabas.node.storage.log import PartitionLog
from barnabas.wire.batch import Record, decode_records
from tests.support.log_reading import iterate

Clean = Callable[..., Finished]


def dirt_of(log: PartitionLog, now_ms: int, last_stable_offset: int | None = None) -> Dirt:
    stable = log.last_stable_offset(log.log_end_offset) if last_stable_offset is None else last_stable_offset
    return examine(
        list(log.segments),
        checkpoint=log.first_dirty_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=stable,
        config=log.config,
        now_ms=now_ms,
    )


def clean_log(log: PartitionLog, now_ms: int, **settings: Any) -> Finished:
    """Everything that is cleanable, with the active segment closed before."""
    log.roll(now_ms=now_ms)
    groups: list[CleanedGroup] = []
    job = job_for(log, dirt_of(log, now_ms), CleanerSettings(**settings), now_ms)
    with contextlib.chdir(log.directory):
        result = Cleaning(job, groups.append, lambda size: None).run()
    swaps: list[Swap] = []
    for group in groups:
        swaps.append(Swap(log, group, now_ms))
        if not group.more:
            for step in (Swap.prepare, Swap.take_over, Swap.finish):
                for swap in swaps:
                    step(swap)
            swaps.clear()
    log.first_dirty_offset = result.end_offset
    return result


def records_of(log: PartitionLog) -> list[Record]:
    return [record for batch in iterate(log) for record in decode_records(batch)]


@pytest.fixture
def clean() -> Clean:
    return clean_log


@pytest.fixture
def records() -> Callable[[PartitionLog], list[Record]]:
    return records_of


@pytest.fixture
def dirt() -> Callable[..., Dirt]:
    return dirt_of
