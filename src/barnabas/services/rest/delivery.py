"""Records to the producer, and how each of them fared, without a thread that waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.errors import ClientError
from barnabas.client.producer import RecordMetadata
from barnabas.services.rest.kafka import Kafka

Outcome = RecordMetadata | ClientError


class ReadyRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


class Deliveries:
    """The outcomes of some records; the last one to come wakes the waiting request."""

    def __init__(self, count: int) -> None:
        self._outcomes: list[Outcome | None] = [None] * count
        self._left = count
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        if not count:
            self._done.set_result(None)

    def send(self, kafka: Kafka, topic: str, records: Sequence[ReadyRecord], first: int = 0) -> None:
        """In a thread: the producer may wait for its buffer. A record that cannot be sent at all has failed."""
        producer = kafka.producer
        for index, record in enumerate(records, first):
            try:
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    record.headers,
                    record.partition,
                    record.timestamp,
                    lambda metadata, error, index=index: self._told(index, metadata or error),  # type: ignore[misc]
                )
            except ClientError as error:
                self._told(index, error)

    def _told(self, index: int, outcome: Outcome | None) -> None:
        with self._lock:
            self._outcomes[index] = outcome
            self._left -= 1
            last = not self._left
        if last and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def outcomes(self) -> list[Outcome]:
        await self._done
        return [each for each in self._outcomes if each is not None]


async def deliver(kafka: Kafka, topic: str, records: Sequence[ReadyRecord]) -> list[Outcome]:
    deliveries = Deliveries(len(records))
    await kafka.write(lambda: deliveries.send(kafka, topic, records))
    return await deliveries.outcomes()
