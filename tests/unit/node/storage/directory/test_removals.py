"""Files that go a few at a time: how many at once, with which pauses, and what a stop does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.node.storage.directory import removals
from barnabas.node.storage.directory.flusher import Flusher
from barnabas.node.storage.directory.removals import FILES_AT_ONCE, Pace, Removals
from tests.support.waiting import until

COUNT = 5 * FILES_AT_ONCE + 3


class Stage:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failures: list[OSError] = []
        self.flusher = Flusher("test", self.failures.append)
        self.removals = Removals(self.flusher, self.failures.append)

    def files(self, where: Path | None = None) -> list[str]:
        where = where or self.directory
        where.mkdir(exist_ok=True)
        paths = [where / f"{number}.deleted" for number in range(COUNT)]
        for path in paths:
            path.touch()
        return [str(path) for path in paths]

    def left(self, where: Path | None = None) -> int:
        return len(list((where or self.directory).iterdir()))


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    def play(scenario: Callable[[Stage], Awaitable[None]]) -> None:
        async def within() -> None:
            stage = Stage(tmp_path)
            try:
                async with asyncio.timeout(30):
                    await scenario(stage)
            finally:
                stage.flusher.close()
            assert not stage.failures

        asyncio.run(within())

    return play


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "PAUSE_MAX_S", 60.0)
    monkeypatch.setattr(removals, "BACKLOG_S", 6000.0)


def test_files_go_a_few_at_a_time(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    unlink_all = removals.unlink_all

    def counting(paths: list[str]) -> None:
        pieces.append(len(paths))
        unlink_all(paths)

    monkeypatch.setattr(removals, "unlink_all", counting)

    async def scenario(stage: Stage) -> None:
        stage.removals.remove_files(stage.files(), 0)
        await until(lambda: not stage.left())
        assert pieces == [FILES_AT_ONCE] * 5 + [3]

    play(scenario)


@pytest.mark.usefixtures("long_pauses")
def test_a_deleted_partition_s_directory_goes_the_same_way(play: Callable[..., None]) -> None:
    async def scenario(stage: Stage) -> None:
        directory = stage.directory / "orders-0.x-delete"
        stage.files(directory)
        stage.removals.remove_directory(str(directory), 0)
        await until(lambda: stage.left(directory) == COUNT - FILES_AT_ONCE)
        await stage.removals.stop(finish=True)
        assert not directory.exists()

    play(scenario)


@pytest.mark.usefixtures("long_pauses")
@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_clean_stop_waits_for_no_pause_and_removes_what_is_not_yet_due(
    play: Callable[..., None], delay_ms: int
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.removals.remove_files(stage.files(), delay_ms)
        await asyncio.sleep(0)
        await stage.removals.stop(finish=True)
        assert not stage.left()

    play(scenario)


@pytest.mark.usefixtures("long_pauses")
def test_another_stop_leaves_the_rest_to_the_next_start(play: Callable[..., None]) -> None:
    async def scenario(stage: Stage) -> None:
        stage.removals.remove_files(stage.files(), 0)
        await until(lambda: stage.left() < COUNT)
        await stage.removals.stop(finish=False)
        assert stage.left() == COUNT - FILES_AT_ONCE

    play(scenario)


def test_the_more_is_left_the_shorter_are_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    timeout = asyncio.timeout

    def noting(delay: float) -> asyncio.Timeout:
        pauses.append(delay)
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", noting)

    async def scenario() -> None:
        for steps_left in (0, 10, 15_000, 3_000_000):
            await Pace().pause(steps_left)

    asyncio.run(scenario())
    assert pauses == [0.02, 0.02, 0.002, 0.00001]
