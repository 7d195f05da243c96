from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.wire.batch import Record, build_batch

NOW_MS = 1_700_000_000_000

BuildBatch = Callable[..., bytearray]
OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def batch() -> BuildBatch:
    """A batch of `count` records from sequence `sequence` of producer `pid`, at `timestamp`."""

    def build(
        count: int = 1,
        *,
        timestamp: int = NOW_MS,
        pid: int = -1,
        epoch: int = 0,
        sequence: int = 0,
        value: bytes = b"value",
        key: bytes | None = b"key",
        **options: object,
    ) -> bytearray:
        records = [Record(i, timestamp, key, value) for i in range(count)]
        if pid >= 0:
            options |= {"producer_id": pid, "producer_epoch": epoch, "base_sequence": sequence}
        return build_batch(records, **options)  # type: ignore[arg-type]

    return build


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def create(directory: Path) -> OpenLog:
    def created(**configs: object) -> PartitionLog:
        return create_log(directory, "orders", 0, LogConfig(**configs), now_ms=NOW_MS)  # type: ignore[arg-type]

    return created


@pytest.fixture
def reopen(directory: Path) -> OpenLog:
    def reopened(
        clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0, now_ms: int = NOW_MS, **configs: object
    ) -> PartitionLog:
        return open_log(
            directory,
            "orders",
            0,
            LogConfig(**configs),  # type: ignore[arg-type]
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
        )

    return reopened
