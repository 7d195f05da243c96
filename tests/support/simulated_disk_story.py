"""Several lives of one directory on a simulated disk: each ends in a crash, and the next begins with what it left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from barnabas.wire.errors import KafkaError
from tests.support.simulated_disk import Crash
from tests.support.simulated_disk_calls import SimulatedDisk
from tests.support.simulated_disk_threads import SimulatedThreads

NEVER = 1 << 30


class Story(ABC):
    lives_max: ClassVar[int]
    crash_after: ClassVar[tuple[int, ...]]  # so many operations at the most
    failures: ClassVar[tuple[type[Exception], ...]] = (KafkaError, OSError)  # what a failing disk may lead to
    failing_lives = 0.15
    only_syncs_fail = False

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.disk: SimulatedDisk
        self.lives: list[list[str]] = []  # the operations of each, for whoever looks for the cause of a failure

    def run(self) -> None:
        root = self.directory / "life-0"
        root.mkdir()
        for life in range(1, self.random.randint(2, self.lives_max) + 1):
            self._live(root)
            root = self.directory / f"life-{life}"
            self.disk.after_crash(root)
        self._live(root, check_only=True)

    def _live(self, root: Path, *, check_only: bool = False) -> None:
        random = self.random
        crash_after = random.randint(0, random.choice(self.crash_after))
        fail_at = random.randint(0, crash_after) if random.random() < self.failing_lives else -1
        if check_only:
            crash_after, fail_at = NEVER, -1
        self.disk = SimulatedDisk(
            root, random, crash_after=crash_after, fail_at=fail_at, only_syncs_fail=self.only_syncs_fail
        )
        self.lives.append(self.disk.history)
        threads = SimulatedThreads(self.disk, random)
        with self.disk.installed(), threads.installed():
            try:
                threads.run(self._life(root / "data", threads, check_only))
            except Crash:
                self.disk.pull_the_plug()
            except self.failures:
                if self.disk.failed is None:
                    raise

    @abstractmethod
    def _life(self, path: Path, threads: SimulatedThreads, check_only: bool) -> Coroutine[Any, Any, None]: ...
