"""A turn of a task, in one of Spark's workers: poll, transform, convert and write in a transaction; or fetch, convert,
transform, put, and commit the group's offsets.

A source's turn begins by raising the epoch of its transactional id from the one it was given. Only who holds the
current epoch succeeds: a worker that was thought dead is fenced before it can write. The transaction holds the records
and the records of the offsets topic, as KIP-618 has it.
"""

from __future__ import annotations

import errno
import gc
import importlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut
from barnabas.client.fetcher import Fetched, Fetcher, FetchSettings
from barnabas.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.records import iterate_records, visible_batches
from barnabas.client.settings import ClientSettings
from barnabas.client.transaction_requests import PreparedTransaction, add_group, add_offsets, end_transaction
from barnabas.client.transactions import TransactionalProducer
from barnabas.pipelines.connect.config import with_prefix
from barnabas.pipelines.connect.connector import (
    BadRecords,
    Connector,
    SinkConnector,
    SourceConnector,
    TopicPartition,
    offset_key,
    token_of,
)
from barnabas.pipelines.connect.data.columns import SinkColumns, SourceColumn
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import RetriableError
from barnabas.pipelines.connect.plane.conversion import Conversion
from barnabas.pipelines.connect.plane.orders import TURN_RECORDS, Job, Outcome, Turn
from barnabas.pipelines.connect.plane.posting import Post, Posting
from barnabas.pipelines.connect.plane.tolerance import Raw, Tolerance, ToleranceExceeded, trace_of
from barnabas.pipelines.spark.decoding import Decoder, RawBatch
from barnabas.wire.errors import ErrorCode

TRANSACTION_TIMEOUT_MS = 60_000
EARLIEST, END = -2, -1
FETCH_WAIT_MS = 200
PUT_RECORDS = 5_000
COLUMN_LIMIT_RECORDS = 1_000_000  # of a turn whose records are columns
ANY_END = (1 << 63) - 1
COLUMN_FETCH_BYTES = 4 * 1024 * 1024
Polled = list[Record] | SourceColumn
FULL = (errno.ENOSPC, errno.EDQUOT)  # somebody makes room
HEALING = (RetriableError, BrokerUnreachable, TimedOut, ConnectionError, TimeoutError)


def load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@contextmanager
def without_collection() -> Iterator[None]:
    """A turn makes many objects that live to its end and few cycles: looking for cycles took half of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def run_turn(turn: Turn) -> Outcome:
    """Never raises: a failure is an outcome, so that one connector does not end the query of others."""
    with without_collection():
        return _run_turn(turn)


def _run_turn(turn: Turn) -> Outcome:
    outcome = Outcome(name=turn.job.name, task=turn.task)
    tolerance = None
    notes: list[str] = []
    try:
        settings = turn.job.settings | turn.job.tasks[turn.task]
        tolerance = Tolerance(settings, name=turn.job.name, task=turn.task, sleep=time.sleep)
        connector: Connector = load(turn.job.place)(settings, name=turn.job.name, task=turn.task)
        conversion = Conversion(settings, tolerance)
        try:
            if isinstance(connector, SourceConnector):
                source_turn(turn, connector, conversion, outcome)
            else:
                assert isinstance(connector, SinkConnector)
                sink_turn(turn, connector, conversion, outcome)
        finally:
            connector.close()
            notes = connector.notes
    except Exception as error:
        outcome.failed = True
        outcome.retry = heals(error)
        outcome.trace = trace_of(error)
    if tolerance is not None:
        outcome.skipped, outcome.log = tolerance.skipped, [*notes, *tolerance.log][:100]
    return outcome


def heals(error: BaseException) -> bool:
    cause = error.cause if isinstance(error, ToleranceExceeded) else error
    if isinstance(cause, Refused):
        return cause.code in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,  # the transactional id has expired: the next epoch is of a new one
        )
    return isinstance(cause, HEALING) or (isinstance(cause, OSError) and cause.errno in FULL)


def source_turn(turn: Turn, source: SourceConnector, conversion: Conversion, outcome: Outcome) -> None:
    source.start(turn.offsets)
    outcome.producer = turn.producer
    first = poll(source, conversion, None)
    if not first:
        outcome.again_ms = source.pause_ms
        return
    job = turn.job
    cluster = Cluster(client_settings(job, job.producer))
    try:
        prepared = next_epoch(cluster, job.transactional_id(turn.task), turn.producer, source.transaction_timeout_ms)
        outcome.producer = prepared.producer_id, prepared.producer_epoch
        settings = client_settings(job, job.producer)
        producer_settings = replace(ProducerSettings.from_properties(job.producer), linger_ms=5)
        with TransactionalProducer(settings, prepared, producer_settings) as producer:
            try:
                posting = Posting(cluster, producer, producer_settings, partial(make_topic, settings=job.settings))
                send_all(turn, source, conversion, posting, first, outcome)
                send_letters(cluster, producer, conversion.tolerance)
                send_offsets(producer, job, outcome.offsets)
                producer.end(commit=True)
            except BaseException:
                producer.end(commit=False)
                raise
    finally:
        cluster.close()
    source.committed(outcome.offsets)


def send_all(
    turn: Turn, source: SourceConnector, conversion: Conversion, posting: Posting, first: Polled, outcome: Outcome
) -> None:
    until = time.monotonic() + turn.limit_s
    polled = first
    topics: set[str] = set()
    while True:
        if isinstance(polled, SourceColumn):
            outcome.records += send_column(polled, source, conversion, posting, outcome)
            topics.add(polled.topic)
        else:
            topics |= send_records(polled, conversion, posting, outcome)
            outcome.records += len(polled)
        limit = column_limit(turn) if isinstance(polled, SourceColumn) else turn.limit_records
        if (outcome.records >= limit or time.monotonic() >= until) and source.more:
            outcome.more = True
            break
        polled = poll(source, conversion, posting)
        if not polled:
            outcome.again_ms, outcome.more = source.pause_ms, source.unfinished
            break
    outcome.topics = sorted(topics)


def column_limit(turn: Turn) -> int:
    return COLUMN_LIMIT_RECORDS if turn.limit_records == TURN_RECORDS else turn.limit_records


def poll(source: SourceConnector, conversion: Conversion, posting: Posting | None) -> Polled:
    """Nothing is sent of a column's topic that the producer encrypts: such topics get records."""
    topic = source.values.get("topic", "")
    if conversion.column_writer(source.column_schema) is not None and (posting is None or posting.takes(topic)):
        return source.poll_column() or []
    return list(source.poll())


def send_column(
    column: SourceColumn, source: SourceConnector, conversion: Conversion, posting: Posting, outcome: Outcome
) -> int:
    write = conversion.column_writer(source.column_schema)
    assert write is not None
    posting.send_columns(column.topic, None, write(column.values))
    outcome.offsets[offset_key(column.source_partition)] = column.source_offset
    return len(column.values)


def send_records(records: Sequence[Record], conversion: Conversion, posting: Posting, outcome: Outcome) -> set[str]:
    posts: list[Post] = []
    offsets: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    for record in records:
        sent = conversion.to_topic(record) if record.topic else None
        if sent is not None:
            posts.append((*sent, record.partition, record.timestamp))
        if (partition := record.source_partition) is not None:
            offsets.pop(id(partition), None)  # the latest of equal ones counts
            offsets[id(partition)] = partition, record.source_offset or {}
    posting.send(posts)
    outcome.offsets |= {offset_key(partition): offset for partition, offset in offsets.values()}
    return {post[0] for post in posts}


def make_topic(cluster: Cluster, topic: str, *, settings: Mapping[str, str]) -> None:
    """`topic.creation.default.*`, where the connector has it; else the broker's own ways."""
    given = with_prefix(settings, "topic.creation.default.")
    if not given:
        return
    partitions, replicas = int(given.pop("partitions", -1)), int(given.pop("replication.factor", -1))
    if cluster.metadata([topic]).topics[topic].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        create_missing(cluster, topic, partitions, replicas, given)


def create_missing(
    cluster: Cluster, topic: str, partitions: int, replicas: int, configs: Mapping[str, str] | None = None
) -> None:
    from barnabas.client.admin.topics import create_topic

    try:
        create_topic(cluster, topic, partitions=partitions, replication_factor=replicas, configs=configs)
    except Refused as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def next_epoch(
    cluster: Cluster,
    transactional_id: str,
    current: tuple[int, int] | None,
    timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> PreparedTransaction:
    """The epoch after `current`; refused if somebody else has raised it since."""
    from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

    producer_id, epoch = current or (-1, -1)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    until = time.monotonic() + cluster.settings.default_api_timeout_ms / 1000
    while True:
        answer = cluster.ask_coordinator("transaction", transactional_id, request)
        code = ErrorCode(answer.error_code)
        if not code:
            return PreparedTransaction(transactional_id, answer.producer_id, answer.producer_epoch)
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > until:
            raise Refused(code, f"Transactional id {transactional_id}")
        time.sleep(0.02)


def send_offsets(producer: Producer, job: Job, offsets: dict[str, dict[str, Any]]) -> None:
    if job.offsets_topic is None:
        return
    for partition, offset in offsets.items():
        key = json.dumps([job.name, json.loads(partition)], separators=(",", ":")).encode()
        producer.send(job.offsets_topic, json.dumps(offset, separators=(",", ":")).encode(), key)


def send_letters(cluster: Cluster, producer: Producer, tolerance: Tolerance) -> None:
    if not tolerance.letters:
        return
    found = cluster.metadata([tolerance.topic]).topics[tolerance.topic]
    if found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        wanted = tolerance.values["errors.deadletterqueue.topic.replication.factor"]
        brokers = len(cluster.metadata([]).brokers)
        create_missing(cluster, tolerance.topic, 1, min(wanted, brokers))
    for each in tolerance.letters:
        producer.send(tolerance.topic, each.value, each.key, each.headers, timestamp=each.timestamp)


def client_settings(job: Job, extra: dict[str, str]) -> ClientSettings:
    return ClientSettings.from_properties(job.client | extra)


def sink_turn(turn: Turn, sink: SinkConnector, conversion: Conversion, outcome: Outcome) -> None:
    job = turn.job
    properties = {"isolation.level": "read_committed"} | job.client | job.consumer
    with Cluster(client_settings(job, job.consumer)) as cluster:
        found = committed_offsets(cluster, job.consumer_group, turn.partitions, require_stable=True)
        outcome.producer = turn.producer
        sink.partitions = turn.partitions
        sink.open()
        known = sink.positions({tp: (each.offset, each.metadata) for tp, each in found.items()})
        start = start_positions(cluster, turn.partitions, found, dict(known), properties)
        reader = conversion.column_reader(job.settings) if sink.takes_columns else None
        fetch_bytes = {} if reader is None else {"partition_max_bytes": COLUMN_FETCH_BYTES}
        fetch = FetchSettings.from_properties(properties, **fetch_bytes)
        listed = cluster.list_offsets(dict.fromkeys(start, END), isolation=fetch.isolation)
        ends = {tp: min(each.offset, sink.bounds.get(tp, each.offset)) for tp, each in listed.items()}
        with Fetcher(cluster, replace(fetch, max_wait_ms=FETCH_WAIT_MS)) as fetcher:
            fetcher.assign(start)
            for fetched in fetches(fetcher, ends, turn, sink, outcome):
                columns = read_columns(fetched, reader) if reader is not None else None
                if columns is not None:
                    sink.put_columns(columns)
                    outcome.records += len(columns)
                else:
                    put_records(sink, conversion, fetched, outcome)
            read = dict(fetcher.positions)
        if sink.fenced:
            announce(cluster, turn, found, start, sink.announce(read))
        positions = read | dict(sink.flush(read) or {})
        if conversion.tolerance.letters:
            with Producer(client_settings(job, job.producer)) as producer:
                send_letters(cluster, producer, conversion.tolerance)
                producer.flush()
        changed = {tp: at for tp, at in positions.items() if tp not in found or found[tp].offset != at}
        if changed:
            token = uuid.uuid4().hex
            commits = {tp: CommittedOffset(at, token) for tp, at in changed.items()}
            commit_positions(cluster, turn, commits, fenced=sink.fenced)
        outcome.positions = [(topic, partition, at) for (topic, partition), at in read.items()]
        outcome.held = [tp for tp, at in positions.items() if at != read[tp]]
        outcome.wait_records, outcome.wait_ms = sink.wait_records, sink.wait_ms
        outcome.topics = sorted({topic for topic, _ in changed})


def announce(
    cluster: Cluster,
    turn: Turn,
    found: Mapping[TopicPartition, CommittedOffset],
    start: Mapping[TopicPartition, int],
    words: Mapping[TopicPartition, str],
) -> None:
    """The group keeps where the turn began, and beside its token what is about to happen."""
    tokens = {tp: token_of(each.offset, each.metadata)[0] for tp, each in found.items()}
    fenced_commit(
        cluster, turn, {tp: CommittedOffset(start[tp], f"{tokens.get(tp, '')}/{text}") for tp, text in words.items()}
    )


def commit_positions(
    cluster: Cluster, turn: Turn, commits: Mapping[TopicPartition, CommittedOffset], *, fenced: bool
) -> None:
    if fenced:
        fenced_commit(cluster, turn, commits)
    else:
        commit_offsets(cluster, turn.job.consumer_group, commits)


def fenced_commit(cluster: Cluster, turn: Turn, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
    """In a transaction: it is refused if another owner of the task has raised the epoch since."""
    if not commits:
        return
    assert turn.producer is not None
    prepared = PreparedTransaction(turn.job.transactional_id(turn.task), *turn.producer)
    add_group(cluster, prepared, turn.job.consumer_group)
    add_offsets(cluster, prepared, turn.job.consumer_group, commits)
    end_transaction(cluster, prepared, commit=True)


def start_positions(
    cluster: Cluster,
    partitions: list[tuple[str, int]],
    found: dict[tuple[str, int], CommittedOffset],
    known: dict[tuple[str, int], int],
    properties: dict[str, str],
) -> dict[tuple[str, int], int]:
    start = {tp: each.offset for tp, each in found.items()} | known
    missing = [tp for tp in partitions if tp not in start]
    if missing:
        at = END if properties.get("auto.offset.reset", "earliest").lower() == "latest" else EARLIEST
        start |= {tp: each.offset for tp, each in cluster.list_offsets(dict.fromkeys(missing, at)).items()}
    return {tp: start[tp] for tp in partitions}


def fetches(
    fetcher: Fetcher, ends: dict[tuple[str, int], int], turn: Turn, sink: SinkConnector, outcome: Outcome
) -> Iterator[Fetched]:
    until = time.monotonic() + turn.limit_s
    limit = column_limit(turn) if sink.takes_columns else turn.limit_records
    while sink.unfinished or (time.monotonic() < until and outcome.records < limit):
        positions = fetcher.positions
        if all(positions[tp] >= end for tp, end in ends.items()):
            return
        yield from fetcher.poll(FETCH_WAIT_MS)


def read_columns(fetched: Fetched, reader: Callable[[Any], Any]) -> SinkColumns | None:
    """None if the records must be looked at one by one."""
    batches = [RawBatch(each.position, each.header) for each in visible_batches(fetched)]
    decoder = Decoder(fetched.topic, fetched.partition, ("value", "offset", "timestamp"), check_crcs=False)
    found = decoder.decode(fetched.records, batches, fetched.fetch_offset, ANY_END) if batches else None
    read = None if found is None else reader(found.column(0))
    if found is None or read is None:
        return None
    schema, table = read
    times_ms = found.column(2).cast(pa.int64()).to_numpy() // 1000
    return SinkColumns(fetched.topic, fetched.partition, schema, table, found.column(1).to_numpy(), times_ms)


def put_records(sink: SinkConnector, conversion: Conversion, fetched: Fetched, outcome: Outcome) -> None:
    records = list(iterate_records(fetched))
    for at in range(0, len(records), PUT_RECORDS):
        put(sink, conversion, records[at : at + PUT_RECORDS], outcome)


def put(sink: SinkConnector, conversion: Conversion, given: list[Any], outcome: Outcome) -> None:
    records = [record for record in map(conversion.from_topic, given) if record is not None]
    outcome.records += len(given)
    if not records:
        return
    tolerance = conversion.tolerance
    name = type(sink).__name__
    try:
        sink.put(records)
    except RetriableError:
        raise
    except BadRecords as bad:
        for record, error in bad.records:
            tolerance.skip("TASK_PUT", error, raw_of(record, given), name)


def raw_of(record: Record, given: list[Any]) -> Raw:
    for each in given:
        if record.original == (each.topic, each.partition, each.offset):
            return Raw(each.key, each.value, tuple(each.headers), each.timestamp, record.original)
    raise ClientError("a sink refused a record that it was not given")
