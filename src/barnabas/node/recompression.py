"""What takes long with a client's batch happens in threads: another compression for large ones, a look at many records.

The codecs let other threads run while they work; a look at records does not, and has one thread for all, so that a few
kilobytes that unpack to millions of records cost little but their sender's time. A connection's requests are served one
after the other, so records of one producer keep their order.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from barnabas.node.storage.admission import (
    TooMuchAtOnce,
    is_recompressed,
    open_batch,
    recompressed,
    require_little,
    sound,
)
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.segment import TimestampOffset
from barnabas.node.storage.segments import first_record
from barnabas.wire.batch import outline_records_fast, read_header
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import KafkaError

THREAD_FROM_BYTES = 4 * 1024  # below, the way to a thread and back takes longer than the work
THREADS_MAX = 4


class Recompression:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._opener: ThreadPoolExecutor | None = None

    async def apply(self, records: Buffer, topic_partition: str, config: LogConfig) -> Buffer | KafkaError:
        """The batch in the topic's compression, or what went wrong; small and wrong ones are left to the append."""
        if config.target_compression is None or len(records) < THREAD_FROM_BYTES:
            return records
        try:
            view, header = sound(records, topic_partition, config)
        except KafkaError:
            return records
        if not is_recompressed(header, config):
            return records
        if self._threads is None:
            threads = min(os.cpu_count() or 1, THREADS_MAX)
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="recompression")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, recompressed, view, topic_partition, config)
        except KafkaError as error:
            return error

    async def first_record(self, batch: memoryview, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """As the function of that name; raises `KafkaError`."""
        try:
            require_little(batch, read_header(batch))
        except TooMuchAtOnce:
            loop, look = asyncio.get_running_loop(), first_record
            return await loop.run_in_executor(
                self._one_thread(), look, batch, timestamp, start_offset, outline_records_fast
            )
        return first_record(batch, timestamp, start_offset)

    async def open(
        self, records: Buffer, topic_partition: str, config: LogConfig, now_ms: int
    ) -> memoryview | KafkaError:
        """A batch for which an append has raised `TooMuchAtOnce`, to be offered as opened; or what is wrong with it."""
        loop, view = asyncio.get_running_loop(), memoryview(records)
        try:
            return await loop.run_in_executor(self._one_thread(), open_batch, view, topic_partition, config, now_ms)
        except KafkaError as error:
            return error

    def _one_thread(self) -> ThreadPoolExecutor:
        if self._opener is None:
            self._opener = ThreadPoolExecutor(1, thread_name_prefix="opening")
        return self._opener

    def close(self) -> None:
        for threads in (self._threads, self._opener):
            if threads is not None:
                threads.shutdown(cancel_futures=True)
