"""Partitions on a disk that forgets: crashes between any two file operations, and nothing synced is lost.

More seeds and one seed again: see `tests.support.simulated_disk_seeds`, or `make simulate`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.recovery import recovery
from tests.support.simulated_disk_partitions import PartitionsStory
from tests.support.simulated_disk_seeds import slices, tell

SEEDS = 120


@pytest.mark.parametrize("seeds", slices(SEEDS), ids=lambda seeds: f"from-{seeds[0]}")
def test_a_crash_at_any_moment_loses_nothing_that_was_synced(seeds: range) -> None:
    for seed in seeds:
        tell(PartitionsStory, seed)


class FailingFsyncs(PartitionsStory):
    """An fsync fails in every life: rare enough otherwise to make one wait."""

    failing_lives = 1.0
    only_syncs_fail = True
    cleanup_policies = (("delete",),)


def test_an_fsync_that_fails_in_every_life_loses_nothing_either() -> None:
    for seed in range(int(os.environ.get("SIMULATION_SEEDS", "600")) // 20):
        tell(FailingFsyncs, seed)


# The simulation is only worth something if it catches what it is there for.


def forget_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(task: FlushTask) -> None:
        task.paths = [path for path in task.paths if not Path(path).is_dir()]
        run_all(task)

    run_all = FlushTask.run
    monkeypatch.setattr(FlushTask, "run", run)


def believe_later_fsyncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(log: PartitionLog, **options: Any) -> FlushTask:
        offline, log.offline = log.offline, False
        try:
            return prepare_flush(log, **options)
        finally:
            log.offline = offline

    prepare_flush = PartitionLog.prepare_flush
    monkeypatch.setattr(PartitionLog, "prepare_flush", prepare)


def trust_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ensure_valid", lambda *_: None)


def allow_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.Scanner, "follows", lambda *_: True)


def leave_indexes_of_finished_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(log: PartitionLog, **options: Any) -> FlushTask:
        log.flushes.recovery_point += 1
        try:
            return prepare_flush(log, **options)
        finally:
            log.flushes.recovery_point -= 1

    prepare_flush = PartitionLog.prepare_flush
    monkeypatch.setattr(PartitionLog, "prepare_flush", prepare)


STORIES = {believe_later_fsyncs: FailingFsyncs}
MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    forget_directories,
    believe_later_fsyncs,
    trust_checksums,
    allow_holes,
    leave_indexes_of_finished_segments,
]


def failures(story: type[PartitionsStory]) -> Iterator[AssertionError]:
    for seed in range(2000):
        try:
            tell(story, seed)
        except AssertionError as error:
            yield error


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_code_that_is_wrong_is_caught(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: Any) -> None:
    mutate(monkeypatch)
    assert next(failures(STORIES.get(mutate, PartitionsStory)), None) is not None
