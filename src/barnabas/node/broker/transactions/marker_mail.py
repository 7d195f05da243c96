"""Markers for partitions that other brokers lead: WriteTxnMarkers, one request in flight to each of them.

Whatever is to be told to a broker while it is asked goes into the next request. What it refuses, or does not answer,
fails; the coordinator looks for the leader again and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.errors import ClientError
from barnabas.core.coordinator.decision import Marker
from barnabas.core.coordinator.promise import Promise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Neighbourhood

TIMEOUT_MS = 30_000


class _Letter(NamedTuple):
    topic: str
    partition: int
    marker: Marker
    transaction_version: int
    promise: Promise[None]


class MarkerMail:
    def __init__(self, node: Neighbourhood, in_background: Callable[[Coroutine[None, None, None]], None]) -> None:
        self._node = node
        self._in_background = in_background
        self._waiting: dict[int, list[_Letter]] = {}
        self._asked: set[int] = set()

    def send(self, broker_id: int, topic: str, index: int, marker: Marker, transaction_version: int) -> Promise[None]:
        """Kept when the marker is committed there."""
        promise: Promise[None] = Promise()
        self._waiting.setdefault(broker_id, []).append(_Letter(topic, index, marker, transaction_version, promise))
        if broker_id not in self._asked:
            self._asked.add(broker_id)
            self._in_background(self._deliver(broker_id))
        return promise

    async def _deliver(self, broker_id: int) -> None:
        try:
            while letters := self._waiting.pop(broker_id, []):
                await self._ask(broker_id, letters)
        finally:
            self._asked.discard(broker_id)
            for letter in self._waiting.pop(broker_id, []):
                letter.promise.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker was not asked."))

    async def _ask(self, broker_id: int, letters: list[_Letter]) -> None:
        """A producer has one marker in a request: the answer names producers only."""
        producers: set[int] = set()
        now: list[_Letter] = []
        later: list[_Letter] = []
        markers: dict[Marker, int] = {}
        for letter in letters:
            marker = letter.marker
            if marker in markers or marker.producer_id not in producers:
                producers.add(marker.producer_id)
                markers[marker] = letter.transaction_version
                now.append(letter)
            else:
                later.append(letter)
        if later:
            self._waiting.setdefault(broker_id, []).extend(later)
        request = WriteTxnMarkersRequest(markers=[_marker(each, version, now) for each, version in markers.items()])
        try:
            answer: WriteTxnMarkersResponse = await self._node.peers.ask(broker_id, "markers", request, TIMEOUT_MS)
        except ClientError as error:
            _fail(now, KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)))
            return
        except BaseException:
            _fail(now, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker was not asked."))
            raise
        codes = {
            (each.producer_id, topic.name, result.partition_index): result.error_code
            for each in answer.markers
            for topic in each.topics
            for result in topic.partitions
        }
        for letter in now:
            code = codes.get((letter.marker.producer_id, letter.topic, letter.partition))
            if code == ErrorCode.NONE:
                letter.promise.set(None)
            else:
                letter.promise.fail(KafkaError(_known(code), f"{letter.topic}-{letter.partition}"))


def _marker(marker: Marker, transaction_version: int, letters: list[_Letter]) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for letter in letters:
        if letter.marker == marker:
            topic = topics.setdefault(letter.topic, WritableTxnMarkerTopic(name=letter.topic))
            topic.partition_indexes.append(letter.partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=transaction_version,
    )


def _fail(letters: list[_Letter], error: KafkaError) -> None:
    for letter in letters:
        letter.promise.fail(error)


def _known(code: int | None) -> ErrorCode:
    try:
        return ErrorCode.UNKNOWN_SERVER_ERROR if code is None else ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
