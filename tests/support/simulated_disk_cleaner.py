"""The cleaner's child process, without the process: its work is done by a thread that takes turns with the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass

from barnabas.node.storage.cleaning.job import CleanedGroup, Failed, Job, Message
from barnabas.node.storage.cleaning.process import CleanerProcess
from barnabas.node.storage.cleaning.records import Uncleanable
from barnabas.node.storage.cleaning.rewrite import Cleaning
from barnabas.node.storage.directory.checkpoints import TopicPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.wire.errors import KafkaError
from tests.support.simulated_disk_history import History
from tests.support.simulated_disk_threads import SteppedExecutor


class Killed(BaseException):
    """What a child feels of SIGKILL."""


class SimulatedCleanerProcess(CleanerProcess):
    def __init__(self, executor: SteppedExecutor) -> None:
        super().__init__()
        self._executor = executor
        self._told: deque[Message] = deque()
        self._killed = False
        self._work: asyncio.Future[None] | None = None

    async def run(self, job: Job) -> AsyncGenerator[Message, None]:
        self._told.clear()
        self._killed = False
        self._work = asyncio.get_running_loop().run_in_executor(self._executor, self._clean, job)
        while self._told or not self._work.done():
            if self._told:
                yield self._told.popleft()
            else:
                await asyncio.sleep(0)

    def kill(self) -> None:
        self._killed = True

    async def end(self) -> None:
        self._killed = True
        if self._work is not None:
            await asyncio.wait([self._work])
            if not self._work.cancelled():
                self._work.exception()

    def _clean(self, job: Job) -> None:
        try:
            with contextlib.chdir(job.directory):
                self._told.append(Cleaning(job, self._tell, self._live_on).run())
        except Killed:
            pass
        except OSError as error:
            self._told.append(Failed(reason=str(error), errno=error.errno or -1))
        except (Uncleanable, KafkaError) as error:
            self._told.append(Failed(reason=str(error)))

    def _tell(self, group: CleanedGroup) -> None:
        self._live_on()
        self._told.append(group)

    def _live_on(self, size: int = 0) -> None:
        if self._killed:
            raise Killed


@dataclass(slots=True)
class SimulatedReplica:
    log: PartitionLog
    history: History | None

    @property
    def last_stable_offset(self) -> int:
        """Of what is committed, and so cleaned, nothing is cut off any more."""
        if self.history is not None:
            self.history.committed_end = self.log.log_end_offset
        return self.log.last_stable_offset(self.log.log_end_offset)


@dataclass(slots=True)
class Replicas:
    """All partitions, each the only replica of itself."""

    dirs: LogDirs
    histories: Mapping[TopicPartition, History]

    def __iter__(self) -> Iterator[SimulatedReplica]:
        return (SimulatedReplica(log, self.histories.get((log.topic, log.partition))) for log in self.dirs)
