"""Produce, versions 3 to 13 (0 to 13 are advertised): record batches are appended to partitions that this node leads.

5 brought the log start offset, 7 zstd, 8 record errors and messages, 9 compact encoding, 10 the current leader where
this node is not it, 12 implicit addition to transactions, 13 topics by id.

acks=0 is not answered; an error closes the connection instead. acks=-1 is answered when the records are on all in-sync
replicas, and with `flush.messages` every answer waits for the disk.

Deviations from Kafka: partitions are answered in the order asked; null records are INVALID_RECORD instead of no answer;
a batch whose magic or length is wrong fails its own partition, not the whole request; what is compared inside a batch,
see storage/record_validation.py; a record that a coordinator could not read is not written to an internal topic.

The first batch of a transaction for a partition is not appended before the coordinator knows of the partition: from 12
on it is told, for older clients it is asked (`transaction.partition.verification.enable`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS
from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import TopicPartition
from barnabas.node.broker.coordinators.foreign_records import require_readable
from barnabas.node.broker.leaders import current_leader, leader_endpoint
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.produce_response import AppendedResponse, PartitionResult, TopicResults, declare
from barnabas.node.broker.transactions.verification import VERIFICATIONS_MAX, Refusal, Writer, verify
from barnabas.node.broker.waiting import PendingAcknowledgement, WaitingProduce
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.storage.admission import Opening, RecordsRefused, TooMuchAtOnce, single_batch
from barnabas.node.storage.placing import Appended
from barnabas.node.storage.producer_state import Verification
from barnabas.node.turns import Turn, in_turns
from barnabas.wire.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    PRODUCER_ID_OFFSET,
    SPAN,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    framing_error,
    read_header,
)
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.produce import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.wire.schema import Buffer
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Producing

TOPIC_IDS_SINCE = 13
ZSTD = int(Compression.ZSTD)
ZSTD_SINCE = 7
LEADERS_SINCE = 10
ABORTABLE_SINCE = 11
ADDS_SINCE = 12
UNTOLD = "The transaction coordinator refuses the write."
ACKS = (-1, 0, 1)
ADMIN_CLIENT_ID = "__admin_client"
# Kafka answers these without the log start offset.
PLAIN_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
Asked = dict[str | Uuid, dict[int, Buffer | KafkaError | None]]


async def handle(
    context: RequestContext, request: ProduceRequest, node: Producing
) -> AppendedResponse | ProduceResponse | None:
    produce = _Produce(context, request, node)
    data = request.topic_data
    if request.transactional_id is None and len(data) == 1 and len(data[0].partition_data) == 1:
        topics = produce.append_only(data[0])
    else:
        await produce.read()
        if request.transactional_id is not None:
            await produce.verify(request.transactional_id)
        topics = await produce.append_all()
    if produce.unopened:
        topics = await produce.after_opening(topics)
    if produce.syncs:
        topics = await produce.after_syncs(topics)
    if produce.pending:
        topics = await produce.after_acknowledgements(topics, request.timeout_ms)
    if not produce.failed:
        return AppendedResponse(topics) if request.acks else None
    if not request.acks:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "A produce with acks=0 has failed.")
    return await produce.declare(topics)


def error_response(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """None closes the connection: a client that wants no answer learns of an error by that only."""
    if not request.acks:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=error.code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


class ToldError(KafkaError):
    """An error whose message Kafka sends along; it keeps most of them to itself."""


class _Produce:
    """One request on its way."""

    __slots__ = (
        "_acks",
        "_asked",
        "_context",
        "_node",
        "_now_ms",
        "_refused",
        "_request",
        "_turn",
        "_verifications",
        "failed",
        "pending",
        "syncs",
        "unopened",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest, node: Producing) -> None:
        self._context = context
        self._request = request
        self._node = node
        self._acks = request.acks
        self._now_ms = node.clock()
        self._asked: Asked = {}
        self.failed = False
        # Of transactional batches: partitions that must not be written, and those of which that was found out.
        self._refused: dict[TopicPartition, Refusal] = {}
        self._verifications: dict[TopicPartition, Verification] | None = None
        # Batches that are not appended yet, with the topic's name and what holds their place among the results.
        self.unopened: list[tuple[PartitionResult, str, Buffer]] = []
        self.syncs: list[tuple[Partition, asyncio.Future[int]]] = []
        # Partition, its leader epoch at the append, and the high watermark that acknowledges it.
        self.pending: list[tuple[Partition, int, int]] = []

    async def verify(self, transactional_id: str) -> None:
        """Finds out to which partitions transactional batches may be appended."""
        batches = await self._transactional_batches()
        if not batches:
            return
        self._context.authorize(Operation.WRITE, Resource.transactional_id(transactional_id))
        writers = {(header.producer_id, header.producer_epoch) for _, header in batches}
        if len(writers) > 1:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records of several producers.")
        adds = self._context.api_version >= ADDS_SINCE
        if not adds and not self._node.config.transaction_partition_verification_enable:
            return
        self._verifications = {}
        writer = Writer(transactional_id, *writers.pop())
        for _ in range(VERIFICATIONS_MAX):
            asked = await self._begin_verifications(batches, adds=adds)
            if not asked:
                return
            self._refused |= await verify(
                self._node, writer, asked, adds=adds, knows_abortable=self._context.api_version >= ABORTABLE_SINCE
            )

    async def _begin_verifications(
        self, batches: list[tuple[Partition, BatchHeader]], *, adds: bool
    ) -> list[TopicPartition]:
        """The partitions of which it is not known yet, or not any more, whether the transaction comprises them."""
        assert self._verifications is not None
        asked = []
        async for partition, header in in_turns(batches):
            at = (partition.topic, partition.index)
            producers = partition.log.producers
            known = self._verifications.get(at)
            if at in self._refused or producers.is_verified(header.producer_id, header.producer_epoch, known):
                continue
            asked.append(at)
            self._verifications[at] = producers.begin_verification(
                header.producer_id, header.producer_epoch, header.base_sequence, self._now_ms, begins_at_zero=adds
            )
        return asked

    async def _transactional_batches(self) -> list[tuple[Partition, BatchHeader]]:
        """Those for partitions that are led here."""
        found = []
        for key, partitions in self._asked.items():
            name, _ = self._topic(key)
            if name in INTERNAL_TOPICS:
                continue
            for index, records in partitions.items():
                if self._turn.is_over:
                    await self._turn.give_up()
                partition = None if name is None else self._node.partitions.get(name, index)
                if partition is None or not partition.is_leader:
                    continue
                if records is None or isinstance(records, KafkaError) or not is_transactional(records):
                    continue
                if has_producer(records):
                    found.append((partition, read_header(records)))
        return found

    def _check_verified(self, partition: Partition, records: Buffer) -> None:
        """Between the question and the append the transaction may have ended."""
        if self._verifications is None or not is_transactional(records) or not has_producer(records):
            return
        # Of a partition that another broker leads by now nobody was asked: the client has to look for its leader. After
        # INVALID_TXN_STATE it would abort the transaction, and send the next one here again.
        partition.require_available()
        at = (partition.topic, partition.index)
        if at in self._refused:
            code, message = self._refused[at]
            raise KafkaError(code, UNTOLD) if message is None else ToldError(code, message)
        header = read_header(records)
        producers = partition.log.producers
        if not producers.is_verified(header.producer_id, header.producer_epoch, self._verifications.get(at)):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{partition.log.name} is not part of the transaction.")

    def append_only(self, topic: TopicProduceData) -> TopicResults:
        """One batch for one partition, and no transaction."""
        (data,) = topic.partition_data
        if is_transactional(data.records):
            raise transactional_without_id()
        key = topic.topic_id if self._context.api_version >= TOPIC_IDS_SINCE else topic.name
        name, error = self._topic(key)
        if name is None:
            self.failed = True
            return [(key, [PartitionResult(data.index, error)])]
        return [(key, [self._append(name, data.index, data.records)])]

    async def append_all(self) -> TopicResults:
        topics: TopicResults = []
        turn = self._turn
        for key, partitions in self._asked.items():
            name, error = self._topic(key)
            if name is None:
                self.failed = True
                topics.append((key, [PartitionResult(index, error) for index in partitions]))
                continue
            results: list[PartitionResult] = []
            topics.append((key, results))
            for index, records in partitions.items():
                if turn.is_over:
                    await turn.give_up()
                results.append(self._append(name, index, records))
        return topics

    async def read(self) -> None:
        """By topic and partition: of a partition that is there twice the last one counts, as with Kafka.

        Transactional records without a transactional id are an error of the whole request.
        """
        by_id = self._context.api_version >= TOPIC_IDS_SINCE
        has_id = self._request.transactional_id is not None
        asked = self._asked
        turn = self._turn = Turn()
        for topic in self._request.topic_data:
            if topic.partition_data:
                key = topic.topic_id if by_id else topic.name
                partitions = asked.get(key)
                if partitions is None:
                    partitions = asked[key] = {}
                for data in topic.partition_data:
                    if turn.is_over:
                        await turn.give_up()
                    records = partitions[data.index] = data.records
                    if not has_id and is_transactional(records):
                        raise transactional_without_id()

    def _topic(self, key: str | Uuid) -> tuple[str | None, ErrorCode]:
        name: str | None
        if isinstance(key, Uuid):
            name = self._node.image.topic_names.get(key)
            if name is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name = key
        context = self._context
        if not context.may_everything and not context.may(Operation.WRITE, Resource.topic(name)):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return name, ErrorCode.NONE

    def _append(
        self, topic: str, index: int, records: Buffer | KafkaError | None, opening: Opening = Opening.ELSEWHERE
    ) -> PartitionResult:
        partition = self._node.partitions.get(topic, index)
        checked = False
        try:
            if partition is None:
                raise KafkaError(self._node.partitions.missing_error(self._node.image, topic, index))
            if isinstance(records, KafkaError):
                self.failed = True
                return failure(index, records, partition)
            view = self._check(topic, records)
            if self._verifications is not None:
                self._check_verified(partition, view)
            if topic in INTERNAL_TOPICS:
                require_readable(topic, view)
            checked = True
            appended = partition.append(view, self._acks, self._now_ms, opening=opening)
        except TooMuchAtOnce:
            self.unopened.append((PartitionResult(index), topic, view))
            return self.unopened[-1][0]
        except Exception as fault:
            self.failed = True
            # No variable may keep the fault: its traceback has this frame, and with it the whole request.
            return failure(index, item_error(fault, f"{topic}-{index}"), partition if checked else None)
        if appended.flush_due:
            self.syncs.append((partition, self._node.log_dirs.sync(partition.log)))
        if self._acks == -1 and partition.high_watermark <= appended.last_offset:
            self.pending.append((partition, partition.leader_epoch, appended.last_offset + 1))
        return success(index, appended)

    def _check(self, topic: str, records: Buffer | None) -> Buffer:
        """The batch, or the error that does not depend on the partition."""
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "Produce requests must have records for each partition")
        size = len(records)
        if (
            size < HEADER_BYTES
            or SPAN.unpack_from(records)[1] + LOG_OVERHEAD_BYTES != size
            or records[MAGIC_OFFSET] != MAGIC
        ):
            if error := framing_error(records):
                raise ToldError(error.code, error.message)
            records = single_batch(records)
        if len(records) >= HEADER_BYTES:
            attributes = records[ATTRIBUTES_OFFSET + 1]
            if attributes & COMPRESSION_MASK == ZSTD and self._context.api_version < ZSTD_SINCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce")
        if self._acks not in ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={self._acks} is not one of -1, 0 and 1")
        if topic in INTERNAL_TOPICS and self._context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to {topic}")
        return records

    async def after_opening(self, topics: TopicResults) -> TopicResults:
        """What would have held up the loop is looked at in a thread, and then appended."""
        late = {id(held): await self._open(topic, held.partition, view) for held, topic, view in self.unopened}
        return [(key, [late.get(id(result), result) for result in results]) for key, results in topics]

    async def _open(self, topic: str, index: int, view: Buffer) -> PartitionResult:
        partition = self._node.partitions.get(topic, index)
        if partition is None:
            return self._append(topic, index, view)
        log = partition.log
        opened = await self._node.recompression.open(view, log.name, log.config, self._now_ms)
        return self._append(topic, index, opened, Opening.DONE)

    async def after_syncs(self, topics: TopicResults) -> TopicResults:
        """`flush.messages` wants what was appended on the disk before it is answered."""
        errors: dict[Partition, ErrorCode] = {}
        for partition, sync in self.syncs:
            try:
                await sync
            except KafkaError as error:
                errors[partition] = error.code
        return self._with_errors(topics, errors)

    async def after_acknowledgements(self, topics: TopicResults, timeout_ms: int) -> TopicResults:
        waiting = WaitingProduce()
        acknowledgements: list[PendingAcknowledgement] = [
            waiting.watch(partition, leader_epoch, required_offset)
            for partition, leader_epoch, required_offset in self.pending
        ]
        await waiting.until_decided(timeout_ms, acknowledgements)
        errors = {partition: each.error for (partition, _, _), each in zip(self.pending, acknowledgements, strict=True)}
        return self._with_errors(topics, {key: error for key, error in errors.items() if error is not ErrorCode.NONE})

    def _with_errors(self, topics: TopicResults, errors: dict[Partition, ErrorCode]) -> TopicResults:
        if not errors:
            return topics
        self.failed = True
        # A topic that was deleted meanwhile has no name any more.
        by_name = {(each.topic, each.index): error for each, error in errors.items()}
        by_id = {(each.topic_id, each.index): error for each, error in errors.items()}

        def changed(key: str | Uuid, result: PartitionResult) -> PartitionResult:
            at = result.partition
            error = by_id.get((key, at)) if isinstance(key, Uuid) else by_name.get((key, at))
            return result if error is None or result.error_code else result._replace(error_code=error)

        return [(key, [changed(key, result) for result in results]) for key, results in topics]

    async def declare(self, topics: TopicResults) -> ProduceResponse:
        """With errors: who is not led here is told by whom, where the version has room for it."""
        if self._context.api_version < LEADERS_SINCE:
            return await declare(topics)
        endpoints: dict[int, NodeEndpoint] = {}
        async for key, results in in_turns(topics):
            name = self._node.image.topic_names.get(key, "") if isinstance(key, Uuid) else key
            for slot, result in enumerate(results):
                if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    leader = current_leader(self._node.image, name, result.partition)
                    results[slot] = result._replace(current_leader=leader)
                    found = leader_endpoint(self._node.image, leader, self._context.listener)
                    if found is not None:
                        endpoints[found.node_id] = NodeEndpoint(**found._asdict())
        response = await declare(topics)
        response.node_endpoints = list(endpoints.values())
        return response


def success(index: int, appended: Appended) -> PartitionResult:
    return PartitionResult(index, 0, appended.first_offset, appended.log_append_time_ms, appended.log_start_offset)


def failure(index: int, error: KafkaError, partition: Partition | None) -> PartitionResult:
    """`partition` if the batch came as far as its log."""
    record_errors: Sequence[tuple[int, str]] = ()
    message = None
    if isinstance(error, RecordsRefused):
        record_errors, message = error.record_errors, error.message
    elif isinstance(error, ToldError):
        message = error.message
    start = -1 if partition is None or error.code in PLAIN_ERRORS else partition.log.log_start_offset
    return PartitionResult(
        index, error.code, log_start_offset=start, record_errors=record_errors, error_message=message
    )


def transactional_without_id() -> KafkaError:
    return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional records without an id.")


def is_transactional(records: Buffer | None) -> bool:
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_OFFSET] != MAGIC:
        return False
    return records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL_FLAG != 0


def has_producer(records: Buffer) -> bool:
    return records[PRODUCER_ID_OFFSET] < 0x80
