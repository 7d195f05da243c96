"""A turn of a task, in one of Spark's workers: poll, transform, convert and write in a transaction; or fetch, convert,
transform, put, and commit the group's offsets.

A source's turn begins by raising the epoch of its transactional id from the one it was given. Only who holds the
current epoch succeeds: a worker that was thought dead is fenced before it can write. The transaction holds the records
and the records of the offsets topic, as KIP-618 has it.
"""

from __future__ import annotations

import importlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import PreparedTransaction, TransactionalProducer
from barnabas.pipelines.connect.config import with_prefix
from barnabas.pipelines.connect.connector import BadRecords, Connector, SinkConnector, SourceConnector, offset_key
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import RetriableError
from barnabas.pipelines.connect.plane.conversion import Conversion
from barnabas.pipelines.connect.plane.orders import Job, Outcome, Turn
from barnabas.pipelines.connect.plane.tolerance import Raw, Tolerance, ToleranceExceeded, trace_of
from barnabas.wire.errors import ErrorCode

TRANSACTION_TIMEOUT_MS = 60_000
EARLIEST, END = -2, -1
FETCH_WAIT_MS = 200
PUT_RECORDS = 5_000
HEALING = (RetriableError, BrokerUnreachable, TimedOut, ConnectionError, TimeoutError)


def load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def run_turn(turn: Turn) -> Outcome:
    """Never raises: a failure is an outcome, so that one connector does not end the query of others."""
    outcome = Outcome(name=turn.job.name, task=turn.task)
    tolerance = None
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
    except Exception as error:
        outcome.failed = True
        outcome.retry = heals(error)
        outcome.trace = trace_of(error)
    if tolerance is not None:
        outcome.skipped, outcome.log = tolerance.skipped, tolerance.log[:100]
    return outcome


def heals(error: BaseException) -> bool:
    cause = error.cause if isinstance(error, ToleranceExceeded) else error
    if isinstance(cause, Refused):
        return cause.code in (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.REQUEST_TIMED_OUT,
        )
    return isinstance(cause, HEALING)


def source_turn(turn: Turn, source: SourceConnector, conversion: Conversion, outcome: Outcome) -> None:
    source.start(turn.offsets)
    outcome.producer = turn.producer
    first = list(source.poll())
    if not first:
        outcome.again_ms = source.pause_ms
        return
    job = turn.job
    cluster = Cluster(client_settings(job, job.producer))
    try:
        prepared = next_epoch(cluster, job.transactional_id(turn.task), turn.producer)
        outcome.producer = prepared.producer_id, prepared.producer_epoch
        settings = client_settings(job, job.producer)
        producer_settings = replace(ProducerSettings.from_properties(job.producer), linger_ms=5)
        with TransactionalProducer(settings, prepared, producer_settings) as producer:
            try:
                send_all(turn, source, conversion, producer, cluster, first, outcome)
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
    turn: Turn,
    source: SourceConnector,
    conversion: Conversion,
    producer: TransactionalProducer,
    cluster: Cluster,
    first: Sequence[Record],
    outcome: Outcome,
) -> None:
    until = time.monotonic() + turn.limit_s
    records = first
    topics: set[str] = set()
    while True:
        for record in records:
            sent = conversion.to_topic(record)
            if sent is not None:
                topic, key, value, headers = sent
                if topic not in topics:
                    topics.add(topic)
                    make_topic(cluster, topic, turn.job.settings)
                producer.send(topic, value, key, headers, record.partition, record.timestamp)
            if record.source_partition is not None:
                outcome.offsets[offset_key(record.source_partition)] = record.source_offset or {}
        outcome.records += len(records)
        if outcome.records >= turn.limit_records and source.more:
            break
        if time.monotonic() >= until and source.more:
            break
        records = source.poll()
        if not records:
            outcome.again_ms = source.pause_ms
            break
    outcome.topics = sorted(topics)


def make_topic(cluster: Cluster, topic: str, settings: Mapping[str, str]) -> None:
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


def next_epoch(cluster: Cluster, transactional_id: str, current: tuple[int, int] | None) -> PreparedTransaction:
    """The epoch after `current`; refused if somebody else has raised it since."""
    from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

    producer_id, epoch = current or (-1, -1)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
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
        found = committed_offsets(cluster, job.consumer_group, turn.partitions)
        sink.partitions = turn.partitions
        sink.open()
        known = sink.positions({tp: (each.offset, each.metadata) for tp, each in found.items()})
        start = start_positions(cluster, turn.partitions, found, dict(known), properties)
        fetch = FetchSettings.from_properties(properties)
        ends = {
            tp: each.offset
            for tp, each in cluster.list_offsets(dict.fromkeys(start, END), isolation=fetch.isolation).items()
        }
        with Fetcher(cluster, replace(fetch, max_wait_ms=FETCH_WAIT_MS)) as fetcher:
            fetcher.assign(start)
            for records in batches(fetcher, ends, turn, sink):
                put(sink, conversion, records, outcome)
            read = dict(fetcher.positions)
        positions = read | dict(sink.flush(read) or {})
        if conversion.tolerance.letters:
            with Producer(client_settings(job, job.producer)) as producer:
                send_letters(cluster, producer, conversion.tolerance)
                producer.flush()
        changed = {tp: at for tp, at in positions.items() if tp not in found or found[tp].offset != at}
        if changed:
            token = uuid.uuid4().hex
            commits = {tp: CommittedOffset(at, token) for tp, at in changed.items()}
            commit_offsets(cluster, job.consumer_group, commits)
        outcome.positions = [(topic, partition, at) for (topic, partition), at in read.items()]
        outcome.held = [tp for tp, at in positions.items() if at != read[tp]]
        outcome.wait_records, outcome.wait_ms = sink.wait_records, sink.wait_ms
        outcome.topics = sorted({topic for topic, _ in changed})


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


def batches(fetcher: Fetcher, ends: dict[tuple[str, int], int], turn: Turn, sink: SinkConnector) -> Iterator[list[Any]]:
    until = time.monotonic() + turn.limit_s
    taken = 0
    while sink.unfinished or (time.monotonic() < until and taken < turn.limit_records):
        positions = fetcher.positions
        if all(positions[tp] >= end for tp, end in ends.items()):
            return
        records = [record for fetched in fetcher.poll(FETCH_WAIT_MS) for record in iterate_records(fetched)]
        taken += len(records)
        for at in range(0, len(records), PUT_RECORDS):
            yield records[at : at + PUT_RECORDS]


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
