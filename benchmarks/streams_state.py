"""State that is larger than memory: counts millions of keys in a worker of bounded memory, is killed, and goes on.

    python -m benchmarks.streams_state --keys 50000000 --directory /data/state

The parent starts a worker that counts records of random keys batch by batch, as a stage of a topology does it, kills it
with SIGKILL half-way, and starts another one on the same state, which goes on at the version that is there. In the end
the counts of a sample of keys, and the number of all, are compared with what was given. The worker tells its memory.

On a machine that others use, too, `--kill-after-s 300` kills the worker whenever it has run so long and ends, and the
same command with `--on` goes on with the state that is there, until the counts are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

BATCH_RECORDS = 400_000
KEY_BYTES = 46  # of chance in a key, which has twice as many letters: they can't be compressed


def key_of(number: int) -> str:
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=KEY_BYTES).hexdigest()


def numbers_of(batch: int, keys: int) -> np.ndarray:
    """The keys of a batch: each comes once in the first round, afterwards at random."""
    first = batch * BATCH_RECORDS
    if first < keys:
        return np.arange(first, min(first + BATCH_RECORDS, keys))
    return np.random.default_rng(batch).integers(0, keys, BATCH_RECORDS)


def work(directory: Path, keys: int, batches: int, cache_bytes: int) -> None:
    from barnabas.pipelines.streams.state.versions import PartitionState, versions_in

    state = PartitionState(directory, cache_bytes)
    began = time.monotonic()
    deltas, snapshots = versions_in(directory)
    first = max((*deltas, *snapshots), default=0)
    state.load(first)
    loaded_s = time.monotonic() - began
    for batch in range(first, batches):
        state.load(batch)
        store = state.store("count")
        for number in numbers_of(batch, keys).tolist():
            key = key_of(number)
            store.put(key, store.get(key, 0) + 1)
        state.save(batch + 1)
        told = {
            "batch": batch,
            "records_per_s": round(BATCH_RECORDS * (batch + 1 - first) / (time.monotonic() - began)),
            "rss_max_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "loaded_s": round(loaded_s, 1),
        }
        print(json.dumps(told), flush=True)
    check(state, keys, batches)


def check(state: object, keys: int, batches: int) -> None:
    counted: dict[int, int] = {}
    sample = set(random.Random(1).sample(range(keys), min(2000, keys)))
    for batch in range(batches):
        for number in numbers_of(batch, keys).tolist():
            if number in sample:
                counted[number] = counted.get(number, 0) + 1
    store = state.store("count")  # type: ignore[attr-defined]
    wrong = [number for number, count in counted.items() if store.get(key_of(number)) != count]
    print(json.dumps({"checked": len(counted), "wrong": len(wrong), "keys": len(store.data)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--more-batches", type=int, default=5, help="behind those that bring every key once")
    parser.add_argument("--cache-mb", type=int, default=256)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--kill-after-s", type=float, default=0)
    parser.add_argument("--on", action="store_true", help="go on with the state that is there")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    batches = -(-given.keys // BATCH_RECORDS) + given.more_batches
    place = given.directory / "0" / "0"
    if given.work:
        work(place, given.keys, batches, given.cache_mb << 20)
        return
    if not given.on:
        shutil.rmtree(given.directory, ignore_errors=True)
    scratch = given.directory / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    begun = given.directory / "keys"  # which keys a batch has depends on it
    if given.on and begun.exists() and int(begun.read_text()) != given.keys:
        parser.error(f"the state in {given.directory} was begun with --keys {begun.read_text()}")
    begun.write_text(str(given.keys))
    command = [sys.executable, "-m", "benchmarks.streams_state", *sys.argv[1:], "--work"]
    if given.kill_after_s:
        run_worker(command, scratch, kill_after_s=given.kill_after_s)
    else:
        run_worker(command, scratch, kill_at_batch=batches // 2)
        run_worker(command, scratch)
    stored = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(json.dumps({"state_mb": stored >> 20, "batches": batches}))


def run_worker(command: list[str], scratch: Path, *, kill_at_batch: int = -1, kill_after_s: float = math.inf) -> None:
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(scratch)}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert worker.stdout is not None
    killing = threading.Timer(min(kill_after_s, threading.TIMEOUT_MAX), worker.kill)
    killing.start()
    for line in worker.stdout:
        print(line, end="", flush=True)
        if json.loads(line).get("batch") == kill_at_batch:
            worker.kill()
    if worker.wait() < 0:
        print(json.dumps({"killed": True}), flush=True)
    killing.cancel()


if __name__ == "__main__":
    main()
