"""What it costs to fsync the state of a batch: python -m benchmarks.streams_fsync --directory DIRECTORY

A file of 4,000 bytes for each partition, as a task writes them; one after the other, and as tasks do it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.pipelines.streams.state import storage

BATCHES = 60
DELTA = b"x" * 4000


def one_by_one() -> None:
    for path in list(storage._unsettled):
        storage._fsync(path)
    storage._unsettled.clear()


def batch_ms(root: Path, partitions: int, settle: Callable[[], None], *, synced: bool) -> float:
    times = []
    for batch in range(BATCHES):
        began = time.perf_counter()
        for partition in range(partitions):
            storage.LocalDirectory(root / str(partition), synced=synced).write(f"{batch}.delta", DELTA)
        settle()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default=".")
    given = parser.parse_args()
    print("partitions  not fsynced  one by one  at once   (ms of a batch, p50)")
    for partitions in (1, 3, 16):
        found = []
        for settle, synced in ((storage.settle, False), (one_by_one, True), (storage.settle, True)):
            with tempfile.TemporaryDirectory(dir=given.directory) as directory:
                found.append(batch_ms(Path(directory), partitions, settle, synced=synced))
        print(f"{partitions:>10}  {found[0]:>11.1f}  {found[1]:>10.1f}  {found[2]:>7.1f}")


if __name__ == "__main__":
    main()
