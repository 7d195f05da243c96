"""Batches in a compression that is not their topic's are unpacked and packed again, large ones in threads.

The codecs let other threads run while they work. A connection's requests are served one after the other, so records of
one producer keep their order.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from barnabas.node.storage.admission import is_recompressed, recompressed, sound
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import KafkaError

THREAD_FROM_BYTES = 4 * 1024  # below, the way to a thread and back takes longer than the work
THREADS_MAX = 4


class Recompression:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

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

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
