"""The cleaner's process as the node sees it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import barnabas
from barnabas.node.storage.cleaning.child import NICENESS
from barnabas.node.storage.cleaning.job import Failed, Job, Message
from barnabas.node.storage.cleaning.process import CleanerProcess


def job(directory: Path) -> Job:
    return Job(
        directory=str(directory),
        inode=0,
        segments=[],
        transaction_indexes=[],
        first_dirty_offset=0,
        first_uncleanable_offset=0,
        producers={},
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=1 << 20,
        index_bytes=1 << 20,
        index_interval_bytes=4096,
        dedupe_bytes=1 << 20,
        load_factor=0.9,
        io_max_bytes_per_second=1e12,
    )


async def answer(directory: Path) -> list[Message]:
    process = CleanerProcess()
    try:
        async for message in process.run(job(directory)):
            return [message]
        return []
    finally:
        await process.end()


def test_nothing_in_the_current_directory_is_taken_for_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(barnabas.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    [message] = asyncio.run(answer(tmp_path / "missing"))
    assert isinstance(message, Failed)


def test_the_process_goes_behind_everybody_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = CleanerProcess()
        try:
            async for _ in process.run(job(tmp_path / "missing")):
                break
            pid = process.pid
            assert pid is not None
            assert os.getpriority(os.PRIO_PROCESS, pid) >= min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)
            assert os.getsid(pid) == pid
        finally:
            await process.end()

    asyncio.run(scenario())
