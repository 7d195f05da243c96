"""A task: the records of one range of one partition, fetched raw from its leader and decoded to Arrow.

The next request is on its way while the answer to the last one is decoded: its position is known from the headers of
the batches alone. A range ends when the position has passed its end, not at a record: the last offsets may be control
records, or have been compacted away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import LEADER_MOVED, Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import BrokerUnreachable, Refused, TimedOut, known_code
from barnabas.client.properties import integer
from barnabas.pipelines.spark.clients import cluster
from barnabas.pipelines.spark.data_loss import DataLoss
from barnabas.pipelines.spark.decoding import Decoder, scan
from barnabas.pipelines.spark.isolation import committed
from barnabas.pipelines.spark.option_values import TopicPartition
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN_TOPIC = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
PARTITION_FETCH_BYTES = 2 * 1024 * 1024
# A new leader may not know for a moment what is committed, and a broker not of a topic.
PATIENCE_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What a consumer's properties say about fetching. Our own default of bytes is larger: a task has one partition."""

    properties: Mapping[str, str]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    check_crcs: bool
    read_committed: bool
    rack: str
    poll_timeout_ms: int
    fail_on_data_loss: bool

    @classmethod
    def of(cls, properties: Mapping[str, str], *, poll_timeout_ms: int, fail_on_data_loss: bool) -> FetchSettings:
        return cls(
            properties=properties,
            max_wait_ms=integer(properties, "fetch.max.wait.ms", 500),
            min_bytes=integer(properties, "fetch.min.bytes", 1),
            max_bytes=integer(properties, "fetch.max.bytes", 50 * 1024 * 1024),
            partition_max_bytes=integer(properties, "max.partition.fetch.bytes", PARTITION_FETCH_BYTES),
            check_crcs=properties.get("check.crcs", "true").lower() != "false",
            read_committed=properties.get("isolation.level") == "read_committed",
            rack=properties.get("client.rack", ""),
            poll_timeout_ms=poll_timeout_ms,
            fail_on_data_loss=fail_on_data_loss,
        )


def read_ranges(
    settings: FetchSettings, ranges: Sequence[OffsetRange], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Of several small ranges, most are whole in the answer to one request for all."""
    first = first_answers(cluster(settings.properties), settings, ranges) if len(ranges) > 1 else {}
    for one in ranges:
        yield from read_range(settings, one, columns, first.pop(one.partition, None))


def read_range(
    settings: FetchSettings, wanted: OffsetRange, columns: Sequence[str], first: PartitionData | None = None
) -> Iterator[pa.RecordBatch]:
    fetch = RangeFetch(cluster(settings.properties), settings, wanted, first)
    decoder = Decoder(wanted.partition.topic, wanted.partition.partition, columns, check_crcs=settings.check_crcs)
    try:
        for answer, batches, start in fetch:
            decoded = decoder.decode(answer.records or b"", batches, start, wanted.end)
            if decoded is not None:
                yield decoded
    finally:
        fetch.close()


def fetch_request(settings: FetchSettings, positions: Iterable[tuple[TopicPartition, Uuid, int]]) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for (topic, number), topic_id, offset in positions:
        entry = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=topic_id))
        entry.partitions.append(
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=settings.partition_max_bytes)
        )
    return FetchRequest(
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=int(settings.read_committed),
        rack_id=settings.rack,
        topics=list(topics.values()),
    )


def topic_id_of(cluster: Cluster, wanted: OffsetRange) -> Uuid:
    return Uuid.parse(wanted.topic_id) if wanted.topic_id else cluster.topic(wanted.partition.topic).topic_id


def first_answers(
    cluster: Cluster, settings: FetchSettings, ranges: Sequence[OffsetRange]
) -> dict[TopicPartition, PartitionData]:
    """The beginnings of ranges, by one request to each leader. What is not among them, or not as it should be, is asked
    for on its own, with the patience that this has not."""
    found: dict[TopicPartition, PartitionData] = {}
    by_leader: dict[int, dict[TopicPartition, OffsetRange]] = {}
    try:
        for one in ranges:
            by_leader.setdefault(cluster.leader(*one.partition), {})[one.partition] = one
        for leader, theirs in by_leader.items():
            ids = {partition.topic: topic_id_of(cluster, one) for partition, one in theirs.items()}
            connection = cluster.connection(leader)
            if len(theirs) < 2 or connection.in_flight:
                continue
            request = fetch_request(settings, [(p, ids[p.topic], one.start) for p, one in theirs.items()])
            newest = connection.version_of(FetchRequest)
            answer = connection.request(request, min(newest, 12) if ZERO_UUID in ids.values() else newest)
            names = {topic_id: name for name, topic_id in ids.items()}
            for topic in answer.responses if not answer.error_code else ():
                name = topic.topic or names.get(topic.topic_id, "")
                for each in topic.partitions:
                    partition = TopicPartition(name, each.partition_index)
                    if not each.error_code and scan(each.records or b"", str(partition)):
                        found[partition] = each
    except (BrokerUnreachable, TimedOut, Refused):
        pass
    return found


class RangeFetch:
    """Iterates over (answer, batches to decode, offset to begin at) until the range is done; `first` is the answer to a
    request for its beginning that was made already."""

    def __init__(
        self, cluster: Cluster, settings: FetchSettings, wanted: OffsetRange, first: PartitionData | None = None
    ) -> None:
        self._first = first
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._loss = DataLoss(settings.fail_on_data_loss)
        self._position = wanted.start
        self._on_its_way: Connection | None = None
        self._progress_at = time.monotonic()

    def __iter__(self) -> Iterator[tuple[PartitionData, list[Any], int]]:
        name = str(self._wanted.partition)
        while self._position < self._wanted.end:
            answer = self._answer()
            if answer is None:
                continue
            batches = scan(answer.records or b"", name)
            if not batches:
                self._nothing_came(answer)
                continue
            start = self._position
            self._position = batches[-1].next_offset
            self._progress_at = time.monotonic()
            if self._position < self._wanted.end:
                self._send_ahead()
            if self._settings.read_committed:
                wanted = committed(answer.records or b"", batches, answer.aborted_transactions or [])
            else:
                wanted = [batch for batch in batches if not batch.header.is_control]
            yield answer, wanted, start

    def close(self) -> None:
        """A task that ends early leaves no answer behind that the next one would take for its own."""
        if self._on_its_way is not None:
            self._on_its_way.close()
            self._on_its_way = None

    def _send_ahead(self) -> None:
        try:
            self._send()
        except (BrokerUnreachable, TimedOut, Refused):
            self._on_its_way = None  # it is asked again, and told then, when this answer is decoded

    def _send(self) -> None:
        topic, number = self._wanted.partition
        leader = self._cluster.leader(topic, number)
        connection = self._cluster.connection(leader)
        if connection.in_flight:
            connection.close()
            connection = self._cluster.connection(leader)
        topic_id = topic_id_of(self._cluster, self._wanted)
        request = fetch_request(self._settings, [(self._wanted.partition, topic_id, self._position)])
        newest = connection.version_of(FetchRequest)
        connection.send(request, min(newest, 12) if topic_id == ZERO_UUID else newest)
        self._on_its_way = connection

    def _answer(self) -> PartitionData | None:
        """None when it is worth asking again."""
        if self._first is not None:
            answer, self._first = self._first, None
            return answer
        try:
            if self._on_its_way is None:
                self._send()
            assert self._on_its_way is not None
            response = self._on_its_way.receive()
        except (BrokerUnreachable, TimedOut) as error:
            self._try_again(str(error), self._settings.poll_timeout_ms, error)
            return None
        finally:
            self._on_its_way = None
        code = response.error_code
        answer = response.responses[0].partitions[0] if response.responses else PartitionData(records=b"")
        code = known_code(code or answer.error_code)
        if not code:
            return answer
        name = str(self._wanted.partition)
        if code in LEADER_MOVED:
            self._try_again(f"{name} has no leader that answers ({code.name})", self._settings.poll_timeout_ms)
        elif code in UNKNOWN_TOPIC:
            self._topic_gone(code)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
        else:
            raise Refused(code, f"{name} can't be read from offset {self._position}")
        return None

    def _try_again(self, why: str, patience_ms: int, error: Exception | None = None) -> None:
        self._cluster.forget_leader(self._wanted.partition.topic)
        waited_ms = (time.monotonic() - self._progress_at) * 1000
        if waited_ms > patience_ms:
            raise TimedOut(f"No records of {self._wanted.partition} within {patience_ms} ms: {why}") from error
        time.sleep(min(0.1, patience_ms / 10_000))

    def _waited_enough(self) -> bool:
        return (time.monotonic() - self._progress_at) * 1000 > PATIENCE_MS

    def _topic_gone(self, code: ErrorCode) -> None:
        if not self._waited_enough():
            self._try_again(code.name, PATIENCE_MS * 2)
            return
        span = f"offsets {self._position} to {self._wanted.end - 1} of {self._wanted.partition}"
        self._loss.report(
            f"{span} are gone, as the topic was deleted{' or created again' if code.value == 100 else ''}"
        )
        self._position = self._wanted.end

    def _out_of_range(self) -> None:
        partition = self._wanted.partition
        bounds = self._cluster.list_offsets({partition: -2})
        begins = bounds[partition].offset
        if begins <= self._position:
            self._beyond_the_end()
            return
        resumed = min(begins, self._wanted.end)
        self._loss.report(
            f"offsets {self._position} to {resumed - 1} of {partition} are gone: it now begins at offset {begins}"
        )
        self._position = resumed
        self._progress_at = time.monotonic()

    def _nothing_came(self, answer: PartitionData) -> None:
        """The range lies within what is committed, so there have to be records, or later ones, soon."""
        ends = answer.last_stable_offset if self._settings.read_committed else answer.high_watermark
        if ends < self._wanted.end:
            self._beyond_the_end()
        else:
            why = f"it is at offset {self._position}, and the range ends at {self._wanted.end}"
            self._try_again(why, self._settings.poll_timeout_ms)

    def _beyond_the_end(self) -> None:
        if not self._waited_enough():
            self._try_again("the partition is shorter than it was", PATIENCE_MS * 2)
            return
        partition = self._wanted.partition
        ends = self._cluster.list_offsets({partition: -1})[partition].offset
        self._loss.report(
            f"offsets {self._position} to {self._wanted.end - 1} of {partition} are not there: it ends at offset {ends}"
        )
        self._position = self._wanted.end
