"""What lies on the disks at the start becomes logs.

After a clean stop a log is opened as it is. Otherwise it is recovered first (`recovery`): here, if there is little to
scan, else by child processes, `num.recovery.threads.per.data.dir` for each directory and all directories at once. In a
thread such a scan would hold up the loop, on which a test's own code may run.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from barnabas.node.storage.directory.checkpoints import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from barnabas.node.storage.directory.log_dir import LogDir, OnDisk
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import open_log
from barnabas.node.storage.recovery import recovery
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

# A process takes an eighth of a second to start: in that time so much is scanned, or so many logs are recovered.
INLINE_SCAN_BYTES = 64 * 1024 * 1024
INLINE_LOGS = 200
# What a child is given at once.
ORDER_LOGS, ORDER_BYTES = 16, 16 * 1024 * 1024
CHILD_LINE_BYTES = 16 * 1024 * 1024
TURN_S = 0.005


class WrongDirectory(Exception):
    """The directories do not belong together, or to this node."""


@dataclass(slots=True)
class Found:
    """What one directory holds."""

    directory: LogDir
    knows_points: bool = True
    jobs: dict[OnDisk, recovery.Job] = field(default_factory=dict)
    sizes: dict[OnDisk, int] = field(default_factory=dict)  # bytes to scan, of those that were not closed cleanly
    recovered: dict[OnDisk, recovery.Recovered] = field(default_factory=dict)


class Loading:
    def __init__(
        self,
        config_for: Callable[[str], LogConfig],
        home_of: Callable[[str, int], Uuid | None],
        *,
        now_ms: int,
        producer_id_expiration_ms: int,
        children_per_dir: int,
    ) -> None:
        self._config_for = config_for
        self._home_of = home_of
        self._now_ms = now_ms
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._children_per_dir = children_per_dir
        self._turn_ends = 0.0

    async def run(self, directories: Sequence[LogDir]) -> None:
        """Every log of these directories; one that cannot be read is offline afterwards."""
        found: list[Found] = []
        for directory in directories:
            each = Found(directory)
            try:
                self._look_into(each, found)
            except OSError as error:
                directory.failed(error)
            else:
                found.append(each)
        sizes = [size for each in found for size in each.sizes.values()]
        if sum(sizes) > INLINE_SCAN_BYTES or len(sizes) > INLINE_LOGS:
            await asyncio.gather(*(self._recover(each) for each in found if each.sizes))
        for each in found:
            if each.directory.offline is None:
                await self._open_all(each)

    def _look_into(self, found: Found, others: list[Found]) -> None:
        directory = found.directory
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        directory.checkpointed = recovery_points
        # Without it nobody knows whether compaction was at work there.
        found.knows_points = directory.has_checkpoint(RECOVERY_POINT_CHECKPOINT)
        log_starts = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT)
        replicas = list(directory.partition_directories())
        keys = {replica.key for replica in replicas}
        directory.gone = {key: offset for key, offset in recovery_points.items() if key not in keys}
        for replica in replicas:
            if not replica.is_future and not self._is_only_one(replica, directory, others):
                continue
            config = self._config_for(replica.topic)
            found.jobs[replica] = job = recovery.Job(
                directory=f"{directory.path}/{replica.name}",
                recovery_point=recovery_points.get(replica.key, 0),
                log_start_offset=log_starts.get(replica.key, 0),
                index_interval_bytes=config.index_interval_bytes,
                now_ms=self._now_ms,
                producer_id_expiration_ms=self._producer_id_expiration_ms,
                continuous=found.knows_points and not config.compacted,
            )
            if not directory.was_clean:
                found.sizes[replica] = recovery.bytes_to_scan(job)

    def _is_only_one(self, replica: OnDisk, directory: LogDir, others: list[Found]) -> bool:
        """Of two the one at home counts, and the other is set aside."""
        home = self._home_of(*replica.key)
        for other in others:
            if replica not in other.jobs:
                continue
            if home is not None and home == directory.directory_id:
                other.directory.set_aside_unopened(replica)
                del other.jobs[replica]
                other.sizes.pop(replica, None)
            elif home is not None and home == other.directory.directory_id:
                directory.set_aside_unopened(replica)
                return False
            else:
                raise WrongDirectory(f"{replica.name} is in both {other.directory.path} and {directory.path}")
        return True

    async def _open_all(self, found: Found) -> None:
        directory, stale = found.directory, False
        try:
            for replica, job in found.jobs.items():
                log = self._open(directory, replica, job, found.recovered.get(replica))
                (directory.future_logs if replica.is_future else directory.logs)[replica.key] = log
                if not found.knows_points:
                    directory.flush_later(log)
                moved = log.recovery_point - job.recovery_point
                # Where no recovery points are known, none is written before all logs are flushed.
                stale = stale or moved < 0 or (moved > 0 and found.knows_points and not directory.was_clean)
                if time.monotonic() > self._turn_ends:
                    await asyncio.sleep(0)
                    self._turn_ends = time.monotonic() + TURN_S
            directory.look_for_lost_transaction_indexes()
            # What is appended next must not seem to be on the disk already, and holes lie below the recovery point.
            if stale:
                await directory.write_checkpoints()
        except OSError as error:
            directory.failed(error)
        except KafkaError as error:
            directory.failed(OSError(str(error)))

    def _open(
        self, directory: LogDir, replica: OnDisk, job: recovery.Job, recovered: recovery.Recovered | None
    ) -> PartitionLog:
        return open_log(
            job.directory,
            *replica.key,
            self._config_for(replica.topic),
            clean=directory.was_clean,
            recovery_point=job.recovery_point,
            log_start_offset=job.log_start_offset,
            now_ms=job.now_ms,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            handles=directory.handles,
            background=directory,
            recovered=recovered,
            continuous=job.continuous,
        )

    # -- children

    async def _recover(self, found: Found) -> None:
        orders = deque(orders_of(found.sizes))
        children = max(1, min(len(orders), self._children_per_dir))
        done = await asyncio.gather(*(recover_in_child(orders, found) for _ in range(children)), return_exceptions=True)
        for error in done:
            if isinstance(error, OSError):
                found.directory.failed(error)
            elif error is not None:
                raise error


def orders_of(sizes: dict[OnDisk, int]) -> list[list[OnDisk]]:
    """The largest logs first and alone, so that nobody waits for them at the end; small ones some at a time."""
    orders: list[list[OnDisk]] = []
    room = 0
    for replica, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if not orders or len(orders[-1]) >= ORDER_LOGS or size > room:
            orders.append([])
            room = ORDER_BYTES
        orders[-1].append(replica)
        room -= size
    return orders


async def recover_in_child(orders: deque[list[OnDisk]], found: Found) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing in the current directory is to be taken for a module
        "-m",
        recovery.__name__,
        str(os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=CHILD_LINE_BYTES,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        while orders and found.directory.offline is None:
            order = orders.popleft()
            child.stdin.write(json.dumps([found.jobs[replica] for replica in order]).encode() + b"\n")
            await child.stdin.drain()
            line = await child.stdout.readline()
            if not line:
                raise OSError(f"the recovery of {found.jobs[order[0]].directory} ended early")
            for replica, (end_offset, scanned, truncated, epochs, *rest) in zip(order, json.loads(line), strict=True):
                entries = [(epoch, offset) for epoch, offset in epochs]
                found.recovered[replica] = recovery.Recovered(end_offset, scanned, truncated, entries, *rest)
        child.stdin.close()
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
