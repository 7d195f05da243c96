"""Ready record batches to the leaders of their partitions: in order, several requests under way, sent again when a
leader moves or a connection is lost.

The caller numbers batches of an idempotent producer; sending the same bytes again is then safe, and order holds
because after the first failure everything under way is awaited before what failed is sent anew, oldest first.
Blocking, and for one thread at a time. What is under way is bounded by requests per broker and bytes per request.
"""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

from barnabas.client.cluster import LEADER_MOVED, UNKNOWN, Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import BrokerUnreachable, Refused, TimedOut, known_code
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

PRODUCE_VERSION_MAX = 11  # from 12 on, a transaction takes up partitions that were not named before
AGAIN = (
    LEADER_MOVED
    | UNKNOWN
    | {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
ACCEPTED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class Batch(NamedTuple):
    topic: str
    partition: int
    data: bytes | bytearray
    number: int  # in the order of sending


class UnderWay(NamedTuple):
    connection: Connection
    batches: list[Batch]


class BatchSender:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        transactional_id: str | None = None,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        request_bytes_max: int = 1_048_576,
        in_flight_max: int = 5,
        connections: dict[int, Connection] | None = None,
    ) -> None:
        """`connections` are for batches alone, by node; those of the caller's serve one sender after another."""
        self._cluster = cluster
        self._owns_connections = connections is None
        self._connections = {} if connections is None else connections
        self._acks = acks
        self._transactional_id = transactional_id
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._request_bytes_max = request_bytes_max
        self._in_flight_max = in_flight_max
        self._collected: dict[int, list[Batch]] = {}
        self._under_way: deque[UnderWay] = deque()
        self._failed: list[tuple[Batch, str]] = []
        # A broker takes any number from a producer it does not know, so the second batch of a partition, under way with
        # the first, could be taken where that one is not: until a batch was written there, they go one by one.
        self._opening: set[tuple[str, int]] = set()
        self._opened: set[tuple[str, int]] = set()
        self._numbered = 0
        self._failing_since: float | None = None

    def send(self, topic: str, partition: int, data: bytes | bytearray) -> None:
        """Goes out with the next full request, or when `push` or `flush` is called."""
        self._recover()
        self._numbered += 1
        self._collect(Batch(topic, partition, data, self._numbered))

    def push(self) -> None:
        """Sends what was collected; answers are awaited only where too many are due."""
        for node_id in list(self._collected):
            self._dispatch(node_id)

    def flush(self) -> None:
        """Returns when every batch is written, and raises if one cannot be."""
        self.push()
        self._await_all()
        while self._failed:
            self._recover()
            self.push()
            self._await_all()

    def close(self) -> None:
        """Gives up what is under way: its connections are of no use any more."""
        for connection in self._connections.values():
            if self._owns_connections or connection.in_flight:
                connection.close()
        self._under_way.clear()
        self._collected.clear()
        self._failed.clear()

    def _collect(self, batch: Batch) -> None:
        node_id = self._cluster.leader(batch.topic, batch.partition)
        collected = self._collected.setdefault(node_id, [])
        there = any(one.partition == batch.partition and one.topic == batch.topic for one in collected)
        size = sum(len(one.data) for one in collected)
        if collected and (there or size + len(batch.data) > self._request_bytes_max):
            self._dispatch(node_id)
            collected = self._collected.setdefault(node_id, [])
        collected.append(batch)

    def _dispatch(self, node_id: int) -> None:
        batches = self._collected.pop(node_id, [])
        while sum(request.connection.node_id == node_id for request in self._under_way) >= self._in_flight_max:
            self._receive_oldest()
        while self._under_way and any((one.topic, one.partition) in self._opening for one in batches):
            self._receive_oldest()
        if self._failed:  # order first: nothing overtakes what failed
            self._failed += [(batch, "sent after one that failed") for batch in batches]
            return
        try:
            connection = self._connection(node_id)
            version = min(connection.version_of(ProduceRequest), PRODUCE_VERSION_MAX)
            patience_ms = self._request_timeout_ms + self._cluster.settings.request_timeout_ms
            connection.send(self._request(batches), version, timeout_ms=patience_ms, answered=self._acks != 0)
        except (BrokerUnreachable, TimedOut) as error:
            self._failed += [(batch, str(error)) for batch in batches]
            return
        if self._acks != 0:
            self._under_way.append(UnderWay(connection, batches))
            self._opening |= {(one.topic, one.partition) for one in batches} - self._opened

    def _connection(self, node_id: int) -> Connection:
        """Not the cluster's own: questions to it are asked while batches are under way."""
        known = self._connections.get(node_id)
        if known is None or known.closed:
            known = self._connections[node_id] = self._cluster.new_connection(node_id)
        return known

    def _request(self, batches: list[Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            topic = topics.setdefault(batch.topic, TopicProduceData(name=batch.topic))
            topic.partition_data.append(PartitionProduceData(index=batch.partition, records=batch.data))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _receive_oldest(self) -> None:
        request = self._under_way.popleft()
        self._opening -= {(one.topic, one.partition) for one in request.batches}
        try:
            if request.connection.closed:
                raise TimedOut(f"The connection to {request.connection.peer} was lost.")
            answer = request.connection.receive()
        except (BrokerUnreachable, TimedOut) as error:
            self._failed += [(batch, str(error)) for batch in request.batches]
            return
        results = {
            (topic.name, result.index): result for topic in answer.responses for result in topic.partition_responses
        }
        for batch in request.batches:
            if problem := self._problem(batch, results[batch.topic, batch.partition]):
                self._failed.append((batch, problem))
        if not self._failed:
            self._failing_since = None

    def _problem(self, batch: Batch, result: PartitionProduceResponse) -> str | None:
        """Why a batch is to be sent again, None if it was written; what no repetition mends is raised."""
        code = known_code(result.error_code)
        if code in ACCEPTED:
            self._opened.add((batch.topic, batch.partition))
            return None
        behind = any(other.topic == batch.topic and other.partition == batch.partition for other, _ in self._failed)
        if code in AGAIN or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and behind):
            return code.name
        said = result.error_message or (result.record_errors and result.record_errors[0].batch_index_error_message)
        where = f"{batch.topic}-{batch.partition}"
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            said = f"a batch of {len(batch.data)} bytes is larger than the topic's max.message.bytes"
        raise Refused(code, f"{where} refused a batch" + (f": {said}" if said else ""))

    def _await_all(self) -> None:
        while self._under_way:
            self._receive_oldest()

    def _recover(self) -> None:
        while self._failed:
            self._await_all()
            self._send_failed_again()

    def _send_failed_again(self) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        failed, self._failed = sorted(self._failed, key=lambda item: item[0].number), []
        waiting = [batch for batches in self._collected.values() for batch in batches]
        self._collected.clear()
        first, why = failed[0]
        where = f"{first.topic}-{first.partition}"
        if now - self._failing_since > self._delivery_timeout_ms / 1000:
            raise TimedOut(f"{where} did not take a batch within {self._delivery_timeout_ms} ms: {why}")
        time.sleep(self._cluster.settings.retry_backoff_ms / 1000)
        for topic in {batch.topic for batch, _ in failed}:
            self._cluster.forget_leader(topic)
        for batch in sorted([batch for batch, _ in failed] + waiting, key=lambda batch: batch.number):
            self._collect(batch)
