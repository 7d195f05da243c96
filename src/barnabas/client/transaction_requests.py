"""What the coordinators of a transaction are told: it begins, partitions and offsets join it, it ends.

A transaction is its id, producer id and epoch. It is spoken of in the versions in which the end of a transaction does
not raise the epoch (AddPartitionsToTxn 3, AddOffsetsToTxn 3, TxnOffsetCommit 4, EndTxn 4): so the end can be asked for
twice, and by somebody who was not there before. Whoever initializes the same id again fences this one: its every
request is then refused with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH.

Messages are imported where they are needed: processes that live for one task need few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from barnabas.client.cluster import Attempts, Cluster, CoordinatorKind, error_codes
from barnabas.client.errors import Refused, TimedOut
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset, commit_topics, grouped
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Request

ADD_PARTITIONS_VERSION_MAX = 3
ADD_OFFSETS_VERSION_MAX = 3
OFFSET_COMMIT_VERSION_MAX = 4
END_VERSION_MAX = 4
PATTERNS_SINCE = 2
# The former transaction of the id is being ended; or a partition is not known everywhere yet.
ENDING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT})
NOT_HEARD_OF = ENDING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
LOADING = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
T = TypeVar("T")


class PreparedTransaction(NamedTuple):
    """All that is needed to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


def init_transactions(cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000) -> PreparedTransaction:
    """A new epoch of this id. An older transaction of it that is open is aborted, one that is being committed stays."""
    from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = _ask(cluster, "transaction", transactional_id, request, None, f"Transactional id {transactional_id}")
    return PreparedTransaction(transactional_id, answer.producer_id, answer.producer_epoch)


def add_partitions(cluster: Cluster, prepared: PreparedTransaction, partitions: Iterable[TopicPartition]) -> None:
    """Before anything is written to them."""
    from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=prepared.transactional_id,
        v3_and_below_producer_id=prepared.producer_id,
        v3_and_below_producer_epoch=prepared.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(grouped(partitions).items())
        ],
    )
    what = f"The transaction of {prepared.transactional_id} cannot write"
    _ask(cluster, "transaction", prepared.transactional_id, request, ADD_PARTITIONS_VERSION_MAX, what, NOT_HEARD_OF)


def add_group(cluster: Cluster, prepared: PreparedTransaction, group_id: str) -> None:
    """Before offsets of the group are committed in the transaction."""
    from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

    request = AddOffsetsToTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        group_id=group_id,
    )
    what = f"The transaction of {prepared.transactional_id} cannot commit offsets of group {group_id}"
    _ask(cluster, "transaction", prepared.transactional_id, request, ADD_OFFSETS_VERSION_MAX, what)


def add_offsets(
    cluster: Cluster, prepared: PreparedTransaction, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """They become the group's with the transaction's commit."""
    from barnabas.wire.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )

    request = TxnOffsetCommitRequest(
        transactional_id=prepared.transactional_id,
        group_id=group_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        topics=commit_topics(offsets, TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition),
    )
    what = f"The transaction of {prepared.transactional_id} cannot commit offsets of group {group_id}"
    _ask(cluster, "group", group_id, request, OFFSET_COMMIT_VERSION_MAX, what)


def end_transaction(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> None:
    """Once more is allowed, with the same end. Raises Refused if it was fenced, timed out, or ended the other way."""
    from barnabas.wire.messages.end_txn import EndTxnRequest

    request = EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=commit,
    )
    what = f"The transaction of {prepared.transactional_id} was not {'committed' if commit else 'aborted'}"
    _ask(cluster, "transaction", prepared.transactional_id, request, END_VERSION_MAX, what)


def list_transactions(cluster: Cluster, prefix: str = "", *, states: Iterable[str] = ()) -> list[ListedTransaction]:
    """Of all coordinators, by id. States are Kafka's: Ongoing, PrepareCommit, CompleteAbort, ..."""
    from barnabas.wire.messages.list_transactions import ListTransactionsRequest

    found: set[ListedTransaction] = set()
    for node_id in sorted(cluster.metadata([]).brokers):
        version = cluster.connection(node_id).version_of(ListTransactionsRequest)
        pattern = re.escape(prefix) + ".*" if prefix and version >= PATTERNS_SINCE else None
        request = ListTransactionsRequest(state_filters=list(states), transactional_id_pattern=pattern)

        def listed(node_id: int = node_id, request: Request = request) -> Any:
            return cluster.ask_node(node_id, request)

        answer = _until_passed(cluster, listed, f"Node {node_id} did not list its transactions", LOADING)
        found |= {
            ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
            if each.transactional_id.startswith(prefix)
        }
    return sorted(found)


def _ask(
    cluster: Cluster,
    kind: CoordinatorKind,
    key: str,
    request: Request,
    version_max: int | None,
    what: str,
    passing: frozenset[ErrorCode] = ENDING,
) -> Any:
    def asked() -> Any:
        if version_max is None:
            return cluster.ask_coordinator(kind, key, request)
        newest = cluster.coordinator_version(kind, key, type(request))
        return cluster.ask_coordinator(kind, key, request, version=min(version_max, newest))

    return _until_passed(cluster, asked, what, passing)


def _until_passed(cluster: Cluster, ask: Callable[[], T], what: str, passing: frozenset[ErrorCode]) -> T:
    """Asks again while something passes, soon at first: most transactions end in milliseconds. Other errors are
    raised."""
    attempts = Attempts.brisk(cluster.settings)
    while True:
        answer = ask()
        codes = set(error_codes(answer))
        if not codes:
            return answer
        fatal = codes - passing - {ErrorCode.OPERATION_NOT_ATTEMPTED}
        if fatal:
            raise Refused(min(fatal), what)
        if not attempts.pause():
            raise TimedOut(f"{what}: {min(codes).name} for {attempts.timeout_ms} ms.")
