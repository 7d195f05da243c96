"""Raw batches of partitions from given offsets on, as they came over the wire.

One request per leader is in flight at any time: when an answer comes, the next request goes out before the answer is
given to the caller, so that the broker and the wire work while records are decoded. Who seeks makes what is under way
worthless; it is dropped when it comes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.client.cluster import LEADER_MOVED, UNKNOWN, Cluster
from barnabas.client.connection import Connection, wait_readable
from barnabas.client.errors import (
    BrokerUnreachable,
    ClientError,
    OffsetOutOfRange,
    PartitionRefused,
    Refused,
    TimedOut,
    known_code,
)
from barnabas.client.metadata import NO_LEADER, TopicPartition
from barnabas.client.properties import integer, one_of
from barnabas.wire.batch import HEADER_BYTES, LAST_OFFSET_DELTA_OFFSET, LOG_OVERHEAD_BYTES, SPAN
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.schema import Buffer
from barnabas.wire.uuids import ZERO_UUID, Uuid

DELTA = struct.Struct(">i")
LAST_VERSION_WITH_NAMES = 12
RETRIED = LEADER_MOVED | UNKNOWN | {ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_SERVER_ERROR}
NO_END = 1 << 63
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    isolation: str = "read_uncommitted"
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    rack: str = ""
    unknown_patience_ms: int | None = None  # for a leader; by default default.api.timeout.ms

    @property
    def isolation_level(self) -> int:
        return ISOLATION_LEVELS[self.isolation]

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        *,
        partition_max_bytes: int = 1024 * 1024,
        unknown_patience_ms: int | None = None,
    ) -> Self:
        """`partition_max_bytes` is for who does not set max.partition.fetch.bytes."""
        return cls(
            isolation=one_of(properties, "isolation.level", "read_uncommitted", tuple(ISOLATION_LEVELS)),
            max_wait_ms=integer(properties, "fetch.max.wait.ms", 500),
            min_bytes=integer(properties, "fetch.min.bytes", 1),
            max_bytes=integer(properties, "fetch.max.bytes", 50 * 1024 * 1024),
            partition_max_bytes=integer(properties, "max.partition.fetch.bytes", partition_max_bytes),
            rack=properties.get("client.rack", ""),
            unknown_patience_ms=unknown_patience_ms,
        )


class Fetched(NamedTuple):
    """What one partition gave. `aborted` is producer id and first offset of transactions, if only committed is read."""

    topic: str
    partition: int
    fetch_offset: int
    next_offset: int
    records: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class FetchRange(NamedTuple):
    """Offsets of a partition that are to be read. With a topic id, of that topic only, and not of a namesake."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: Uuid = ZERO_UUID


class Position:
    """Where the next fetch of a partition begins, and where reading ends."""

    __slots__ = ("end", "ends_at", "offset", "paused", "problem", "retry_at", "topic_id", "unknown_since")

    def __init__(self, offset: int, end: int = NO_END, topic_id: Uuid = ZERO_UUID) -> None:
        self.offset = offset
        self.end = end
        self.topic_id = topic_id
        self.ends_at = end  # of what may be read, as the leader said last
        self.problem = ErrorCode.NONE  # of the last answer
        self.paused = False
        self.retry_at = 0.0
        self.unknown_since = 0.0

    @property
    def wanted(self) -> bool:
        return not self.paused and self.offset < self.end


class Flight(NamedTuple):
    """A request under way, and the positions it asked from."""

    asked: dict[TopicPartition, int]
    topic_names: dict[Uuid, str]


class Fetcher:
    def __init__(self, cluster: Cluster, settings: FetchSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = settings or FetchSettings()
        self._positions: dict[TopicPartition, Position] = {}
        self._connections: dict[int, Connection] = {}
        self._flights: dict[int, Flight] = {}
        self._node_retry_at: dict[int, float] = {}
        self._problems: list[ClientError] = []
        patience_ms = self._settings.unknown_patience_ms
        self.trouble = ""  # the last with a connection
        self._patience_s = (cluster.settings.default_api_timeout_ms if patience_ms is None else patience_ms) / 1000
        self._metadata_at = time.monotonic()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition."""
        return {partition: position.offset for partition, position in self._positions.items()}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Exactly these partitions from now on; those that are read already go on where they are told to."""
        kept = {partition: self._positions.get(partition) or Position(-1) for partition in positions}
        for partition, offset in positions.items():
            kept[partition].offset = offset
        self._positions = kept

    def assign_ranges(self, ranges: Iterable[FetchRange]) -> None:
        """Exactly these from now on: nothing is asked for from a range's end on. What is under way is given up."""
        for leader in list(self._flights):
            self._connections.pop(leader).close()
        self._flights.clear()
        self._problems.clear()
        self._positions = {each.partition: Position(each.start, each.end, each.topic_id) for each in ranges}

    def position(self, partition: TopicPartition) -> Position:
        return self._positions[partition]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._positions[topic, partition].offset = offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions[partition].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions[partition].paused = False

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """What came within that time, at once if something is there. Positions go on behind what is returned.

        Raises OffsetOutOfRange or Refused; the other partitions lose nothing by it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            if self._problems:
                raise self._problems.pop(0)
            self._send()
            fetched = self._receive(deadline)
            if fetched:
                self._send()
                return fetched
            if not self._problems and time.monotonic() >= deadline:
                return []

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._flights.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _send(self) -> None:
        """Asks every leader that has nothing to answer for what its partitions need."""
        now = time.monotonic()
        if now - self._metadata_at > self._cluster.settings.metadata_max_age_ms / 1000:
            self._metadata_at = now
            for topic in {topic for topic, _ in self._positions}:
                self._cluster.forget_leader(topic)
        wanted = [item for item in self._positions.items() if item[1].wanted and item[1].retry_at <= now]
        try:
            self._cluster.know_topics({topic for (topic, _), _ in wanted}, timeout_ms=0)
        except (BrokerUnreachable, TimedOut) as error:
            self.trouble = str(error)
            for _, position in wanted:
                self._put_off(position)
            return
        by_leader: dict[int, dict[TopicPartition, Position]] = {}
        for partition, position in wanted:
            leader = self._leader(partition, position)
            if leader != NO_LEADER and leader not in self._flights and self._node_retry_at.get(leader, 0) <= now:
                by_leader.setdefault(leader, {})[partition] = position
        for leader, partitions in by_leader.items():
            self._ask(leader, partitions)

    def _leader(self, partition: TopicPartition, position: Position) -> int:
        topic, index = partition
        known = self._cluster.known_topic(topic)
        if known.error and known.error not in RETRIED:
            self._put_off(position)
            self._problems.append(Refused(known.error, f"Topic {topic} cannot be read"))
            return NO_LEADER
        if index not in known.partitions or known.partitions[index].leader == NO_LEADER:
            self._lose(partition, position, known.error or ErrorCode.LEADER_NOT_AVAILABLE)
            return NO_LEADER
        return known.partitions[index].leader

    def _ask(self, leader: int, wanted: Mapping[TopicPartition, Position]) -> None:
        settings = self._settings
        try:
            connection = self._connection(leader)
            newest = connection.version_of(FetchRequest)
            topics: dict[str, FetchTopic] = {}
            for (topic, index), position in wanted.items():
                known = self._cluster.known_topic(topic)
                if index not in known.partitions:
                    continue  # another partition was not known, so the topic is asked for anew
                topic_id = known.topic_id if position.topic_id == ZERO_UUID else position.topic_id
                if topic_id == ZERO_UUID:
                    newest = min(newest, LAST_VERSION_WITH_NAMES)
                entry = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=topic_id))
                entry.partitions.append(
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=known.partitions[index].leader_epoch,
                        fetch_offset=position.offset,
                        partition_max_bytes=settings.partition_max_bytes,
                    )
                )
            if not topics:
                return
            request = FetchRequest(
                max_wait_ms=settings.max_wait_ms,
                min_bytes=settings.min_bytes,
                max_bytes=settings.max_bytes,
                isolation_level=settings.isolation_level,
                rack_id=settings.rack,
                topics=list(topics.values()),
            )
            limit_ms = max(self._cluster.settings.request_timeout_ms, 2 * settings.max_wait_ms)
            connection.send(request, newest, timeout_ms=limit_ms)
        except (BrokerUnreachable, TimedOut) as error:
            self._drop(leader, error)
            return
        asked = {
            (topic, each.partition): each.fetch_offset for topic, entry in topics.items() for each in entry.partitions
        }
        self._flights[leader] = Flight(asked, {entry.topic_id: name for name, entry in topics.items()})

    def _receive(self, deadline: float) -> list[Fetched]:
        """Answers that are there, or the first to come by the deadline."""
        waiting = {leader: self._connections[leader] for leader in self._flights}
        ready = [leader for leader, connection in waiting.items() if connection.has_buffered]
        if not ready:
            now = time.monotonic()
            until = min([deadline, *self._wake_ups(now), *(each.oldest_deadline for each in waiting.values())])
            pause_s = max(until - now, 0)
            if waiting:
                readable = wait_readable(waiting.values(), pause_s)
                ready = [leader for leader, connection in waiting.items() if connection.fileno() in readable]
            elif pause_s:
                time.sleep(pause_s)
        overdue = [leader for leader, each in waiting.items() if each.oldest_deadline <= time.monotonic()]
        fetched: list[Fetched] = []
        for leader in dict.fromkeys([*ready, *overdue]):
            flight = self._flights[leader]
            try:
                answer = self._connections[leader].receive()
            except (BrokerUnreachable, TimedOut) as error:
                self._drop(leader, error)
                continue
            del self._flights[leader]
            fetched += self._accept(flight, answer)
        return fetched

    def _wake_ups(self, now: float) -> list[float]:
        later = [position.retry_at for position in self._positions.values() if position.retry_at > now]
        return later + [at for at in self._node_retry_at.values() if at > now]

    def _accept(self, flight: Flight, answer: FetchResponse) -> list[Fetched]:
        fetched: list[Fetched] = []
        if answer.error_code:
            code = known_code(answer.error_code)
            for partition in flight.asked:
                if partition in self._positions:
                    self._lose(partition, self._positions[partition], code)
            return fetched
        for topic in answer.responses:
            name = topic.topic or flight.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                key = (name, data.partition_index)
                position = self._positions.get(key)
                if position is None or position.offset != flight.asked.get(key):
                    continue  # not wanted any more
                if data.error_code:
                    self._refused(key, position, known_code(data.error_code))
                    continue
                position.unknown_since = 0.0
                position.problem = ErrorCode.NONE
                position.ends_at = data.last_stable_offset if self._settings.isolation_level else data.high_watermark
                found = fetched_from(name, data, position.offset)
                if found.next_offset > position.offset:
                    position.offset = found.next_offset
                    self._positions[key] = self._positions.pop(key)  # others are first in the next request
                    fetched.append(found)
        return fetched

    def _refused(self, partition: TopicPartition, position: Position, code: ErrorCode) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._put_off(position)
            try:
                start = self._cluster.list_offsets({partition: -2})[partition].offset
                end = self._cluster.list_offsets({partition: -1})[partition].offset
            except ClientError as error:
                self._problems.append(error)
                return
            self._problems.append(OffsetOutOfRange(*partition, position.offset, start, end))
        elif code in RETRIED:
            self._lose(partition, position, code)
        else:
            self._put_off(position)
            self._problems.append(PartitionRefused(partition, code))

    def _lose(self, partition: TopicPartition, position: Position, code: ErrorCode) -> None:
        """The leader is another, or unknown for now: it is looked for, but not for ever."""
        now = time.monotonic()
        self._put_off(position)
        position.problem = code
        self._cluster.forget_leader(partition[0])
        if not position.unknown_since:
            position.unknown_since = now
        elif now - position.unknown_since > self._patience_s:
            position.unknown_since = 0.0
            self._problems.append(PartitionRefused(partition, code))

    def _put_off(self, position: Position) -> None:
        position.retry_at = time.monotonic() + self._cluster.settings.retry_backoff_ms / 1000

    def _connection(self, leader: int) -> Connection:
        known = self._connections.get(leader)
        if known is None or known.closed:
            known = self._connections[leader] = self._cluster.new_connection(leader)
        return known

    def _drop(self, leader: int, error: ClientError) -> None:
        self.trouble = str(error)
        flight = self._flights.pop(leader, None)
        connection = self._connections.pop(leader, None)
        if connection is not None:
            connection.close()
        self._node_retry_at[leader] = time.monotonic() + self._cluster.settings.retry_backoff_ms / 1000
        for topic in {topic for topic, _ in flight.asked} if flight else {topic for topic, _ in self._positions}:
            self._cluster.forget_leader(topic)


def fetched_from(topic: str, data: Any, offset: int) -> Fetched:
    records = data.records or b""
    aborted = tuple((each.producer_id, each.first_offset) for each in data.aborted_transactions or ())
    return Fetched(
        topic,
        data.partition_index,
        offset,
        offset_behind(records, offset),
        records,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        aborted,
    )


def offset_behind(records: Buffer, offset: int) -> int:
    """The offset after the last whole batch, or the given one if there is none."""
    position, end = 0, len(records)
    last = -1
    while end - position >= HEADER_BYTES:
        base_offset, length = SPAN.unpack_from(records, position)
        size = length + LOG_OVERHEAD_BYTES
        if length <= 0 or size > end - position:
            break
        last = position
        position += size
    if last < 0:
        return offset
    base_offset, _ = SPAN.unpack_from(records, last)
    (delta,) = DELTA.unpack_from(records, last + LAST_OFFSET_DELTA_OFFSET)
    return max(offset, int(base_offset + delta + 1))
