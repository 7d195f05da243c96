"""A transactional producer that plays the same scene on both servers, each with the ids it was given there."""

import itertools
import time
from collections.abc import Callable
from typing import Any

from barnabas.wire.batch import decode_records, iterate_batches
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.wire.schema import Request, Response
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import Side

GROUP, TRANSACTION = 0, 1
NOT_READY = (14, 15, 16)
CONCURRENT = 51
LIMIT_S = 15
TIMESTAMP = 1_700_000_000_000
_numbers = itertools.count(1)

Partitions = dict[str, list[int]]


class Stage:
    def __init__(self, both: Any) -> None:
        self.both = both
        self.name = f"tx-{next(_numbers)}"
        self.topic: str = both.topic(2)
        self.ids: dict[str, int] = {}
        for side in both.sides:
            coordinate(side, TRANSACTION, self.name)

    # Requests that go well

    def init(self, expected_epoch: int = 0) -> "Stage":
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        for side in self.both.sides:
            answer = until(side, request, 5, lambda answer: answer.error_code not in (*NOT_READY, CONCURRENT))
            assert (answer.error_code, answer.producer_epoch) == (0, expected_epoch), side.name
            self.ids[side.name] = answer.producer_id
        return self

    def completed(self, state: str) -> None:
        """Kafka answers before the markers are written."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        for side in self.both.sides:
            until(side, request, 0, lambda answer: answer.transaction_states[0].transaction_state == state)

    # The same request to both

    def same(self, asked: Callable[[int], Request], version: int, **options: Any) -> Any:
        """`asked` is given the producer id."""
        return self.both.same(lambda side: asked(self.ids[side.name]), version, **options)

    def same_init(self, version: int = 5, *, epoch: int | None = None, other: int = 0, timeout_ms: int = 60_000) -> Any:
        def asked(producer_id: int) -> Request:
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
            if epoch is not None:
                request.producer_id, request.producer_epoch = producer_id + other, epoch
            return request

        return self.same(asked, version)

    def same_add(
        self,
        version: int = 3,
        *,
        epoch: int = 0,
        partitions: Partitions | None = None,
        name: str | None = None,
        other: int = 0,
        verify: bool = False,
    ) -> Any:
        wanted = {self.topic: [0]} if partitions is None else partitions
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in wanted.items()]
        named = self.name if name is None else name

        def asked(producer_id: int) -> Request:
            if version >= 4:
                transaction = AddPartitionsToTxnTransaction(
                    transactional_id=named,
                    producer_id=producer_id + other,
                    producer_epoch=epoch,
                    verify_only=verify,
                    topics=topics,
                )
                return AddPartitionsToTxnRequest(transactions=[transaction])
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=named,
                v3_and_below_producer_id=producer_id + other,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )

        return self.same(asked, version)

    def same_produce(
        self,
        version: int = 12,
        *,
        epoch: int = 0,
        sequence: int = 0,
        partition: int = 0,
        name: str | None = None,
        other: int = 0,
        attributes: int = 0x10,
    ) -> Any:
        def asked(producer_id: int) -> Request:
            batch = crafted_batch(
                attributes=attributes,
                producer_id=producer_id + other,
                producer_epoch=epoch,
                base_sequence=sequence,
                base_timestamp=int(time.time() * 1000),
            )
            data = [PartitionProduceData(index=partition, records=batch)]
            return ProduceRequest(
                transactional_id=self.name if name is None else name,
                acks=-1,
                timeout_ms=5_000,
                topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
            )

        return self.same(asked, version)

    def same_end(
        self, committed: bool, version: int = 5, *, epoch: int = 0, name: str | None = None, other: int = 0
    ) -> Any:
        def asked(producer_id: int) -> Request:
            return EndTxnRequest(
                transactional_id=self.name if name is None else name,
                producer_id=producer_id + other,
                producer_epoch=epoch,
                committed=committed,
            )

        return self.same(asked, version)

    def same_marker(
        self,
        committed: bool,
        *,
        epoch: int,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        partitions: Partitions | None = None,
    ) -> Any:
        wanted = {self.topic: [0]} if partitions is None else partitions

        def asked(producer_id: int) -> Request:
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=committed,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=each) for topic, each in wanted.items()],
            )
            return WriteTxnMarkersRequest(markers=[marker])

        return self.same(asked, 2)

    def same_add_offsets(self, group: str, version: int = 3, *, epoch: int = 0, other: int = 0) -> Any:
        return self.same(
            lambda producer_id: AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=producer_id + other, producer_epoch=epoch, group_id=group
            ),
            version,
        )

    def same_offsets(
        self,
        group: str,
        version: int = 5,
        *,
        epoch: int = 0,
        other: int = 0,
        offset: int = 5,
        topics: dict[str, list[int]] | None = None,
        metadata: str = "",
        member: tuple[int, str] = (-1, ""),
    ) -> Any:
        wanted = {self.topic: [0]} if topics is None else topics

        def asked(producer_id: int) -> Request:
            return TxnOffsetCommitRequest(
                transactional_id=self.name,
                group_id=group,
                producer_id=producer_id + other,
                producer_epoch=epoch,
                generation_id=member[0],
                member_id=member[1],
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=index, committed_offset=offset, committed_metadata=metadata
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in wanted.items()
                ],
            )

        return self.same(asked, version)


def until(side: Side, request: Request, version: int, condition: Callable[[Any], bool]) -> Any:
    limit = time.monotonic() + LIMIT_S
    while not condition(answer := side.ask(request, version)):
        assert time.monotonic() < limit, f"{side.name} still answers {answer!r}"
        time.sleep(0.005)
    return answer


def coordinate(side: Side, key_type: int, key: str) -> None:
    """Kafka makes the internal topic when it is first asked, and needs a moment."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    until(side, request, 4, lambda answer: answer.coordinators[0].error_code == 0)
    if key_type == GROUP:
        described = DescribeGroupsRequest(groups=[key])
        until(side, described, 5, lambda answer: answer.groups[0].error_code not in NOT_READY)


def batches(side: Side, topic: str, partition: int) -> list[tuple[Any, list[Any]]]:
    """Header and records of everything that lies there."""
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_bytes=1 << 24, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    answer: Any = side.ask(request, 11)
    data = bytes(answer.responses[0].partitions[0].records or b"")
    return [(header, list(decode_records(data, position))) for position, header in iterate_batches(data)]


def error_codes(answer: Response | None) -> list[int]:
    """All of them, wherever they stand."""
    found: list[int] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(each)
        elif hasattr(value, "__dict__"):
            for name, each in vars(value).items():
                if name.endswith("error_code"):
                    found.append(each)
                else:
                    walk(each)

    walk(answer)
    return found
