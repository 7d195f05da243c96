"""Partitions on a disk that forgets: crashes between any two file operations, and nothing synced is lost.

SIMULATION_SEEDS=10000 runs more of them (`make simulate`), SIMULATION_SEED=17 replays one and prints what it did.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from barnabas.testing.simulated_disk_partitions import PartitionsStory

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "200"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
REPLAY = os.environ.get("SIMULATION_SEED")
SLICE = 50
MEMORY = Path("/dev/shm")


def tell(seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        story = PartitionsStory(seed, Path(directory))
        try:
            story.run()
        except BaseException as error:
            last = "\n".join("\n".join(life) for life in story.lives[-2:])
            raise AssertionError(f"SIMULATION_SEED={seed} replays this: {error}\n{last}") from error


@pytest.mark.skipif(REPLAY is None, reason="SIMULATION_SEED names the seed to be replayed")
def test_one_seed_again() -> None:
    tell(int(REPLAY or 0))


@pytest.mark.skipif(REPLAY is not None, reason="one seed is replayed")
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, SLICE))
def test_a_crash_at_any_moment_loses_nothing_that_was_synced(first: int) -> None:
    for seed in range(first, min(first + SLICE, FIRST + SEEDS)):
        tell(seed)
