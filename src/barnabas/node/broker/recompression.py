"""What takes long with a client's batch happens in threads: opening it, a look at many records, another compression.

The codecs let other threads run while they work; a look at records does not, but is short for records that look alike.
A connection's requests are served one after the other, so records of one producer keep their order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from barnabas.node.storage.admission import TooMuchAtOnce, open_batch
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.record_validation import require_little
from barnabas.node.storage.segment.segment import TimestampOffset
from barnabas.node.storage.segment.segments import first_record
from barnabas.wire.batch import outline_records_fast, read_header
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import KafkaError

# A request opens its batches one after the other: with two threads one request leaves one to the others, and in the
# line before them every connection stands at most once.
THREADS_MIN, THREADS_MAX = 2, 4

P = ParamSpec("P")
T = TypeVar("T")


class Recompression:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def first_record(self, batch: memoryview, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """As the function of that name; raises `KafkaError`."""
        try:
            require_little(batch, read_header(batch))
        except TooMuchAtOnce:
            found = await self._in_thread(first_record, batch, timestamp, start_offset, outline_records_fast)
            if isinstance(found, KafkaError):
                raise found from None
            return found
        return first_record(batch, timestamp, start_offset)

    async def open(
        self, records: Buffer, topic_partition: str, config: LogConfig, now_ms: int
    ) -> memoryview | KafkaError:
        """A batch for which an append has raised `TooMuchAtOnce`, to be offered as opened; or what is wrong with it."""
        return await self._in_thread(open_batch, memoryview(records), topic_partition, config, now_ms)

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | KafkaError:
        return await asyncio.get_running_loop().run_in_executor(
            self._pool(), partial(result_or_error, work, *args, **kwargs)
        )

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            threads = max(THREADS_MIN, min(os.cpu_count() or 1, THREADS_MAX))
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="opening")
        return self._threads

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)


def result_or_error(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | KafkaError:
    """The error comes without its traceback, whose frames hold what was decompressed: up to a hundred megabytes, which
    this thread gives back to the system. The event loop would take 20 ms for it."""
    try:
        return work(*args, **kwargs)
    except KafkaError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
