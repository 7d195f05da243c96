"""Transactions in pieces: one process begins and fills a transaction, another one ends it.

A transaction is known by its transactional id, producer id and epoch, which travel as plain values. Requests stay in
the versions in which ending a transaction leaves the epoch alone: so a commit that was answered by nobody can be sent
again by whoever holds the three values, and is answered as the first one was.

    begin(id) ends what a former holder of the id left open, and shuts it out by a new epoch
    add_partitions, then batches produced by a BatchSender; add_offset for an offset that becomes committed with them
    end(transaction, commit=True | False)
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from barnabas.client.cluster import Cluster, CoordinatorKind
from barnabas.client.errors import Refused, TimedOut, known_code
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Request

# The newest versions of clients that name partitions before they write to them and keep their epoch at the end.
ADD_PARTITIONS_VERSION_MAX = 3
ADD_OFFSETS_VERSION_MAX = 3
OFFSET_COMMIT_VERSION_MAX = 4
END_VERSION_MAX = 4
OFFSET_FETCH_VERSION_MAX = 9  # the last that names topics instead of their ids

FIRST_PAUSE_S, LAST_PAUSE_S = 0.002, 0.1
STILL_ENDING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
UNSTABLE = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})
NOT_HEARD_OF = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # of batches that followed one that was refused
    }
)

Answer = TypeVar("Answer")


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str


class TransactionalProducer:
    """Speaks to the coordinators of transactions and groups; blocking, and for one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def begin(self, transactional_id: str, timeout_ms: int) -> Transaction:
        """Waits until a transaction that the id's former holder left is ended. `timeout_ms` bounds this one's life."""
        from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._until_free(lambda: self._ask("transaction", transactional_id, request), transactional_id)
        if answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise Refused(
                answer.error_code,
                f"transaction.timeout.ms is {timeout_ms}, and the cluster's transaction.max.timeout.ms is less",
            )
        check(answer.error_code, f"Transactional id {transactional_id} was refused")
        return Transaction(transactional_id, answer.producer_id, answer.producer_epoch)

    def add_partitions(self, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.transactional_id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        key = transaction.transactional_id
        answer = self._until_free(
            lambda: self._ask("transaction", key, request, ADD_PARTITIONS_VERSION_MAX), key, patient=NOT_HEARD_OF
        )
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                what = f"{topic.name}-{result.partition_index} cannot be written to in transaction {key}"
                check(result.partition_error_code, what)

    def add_offset(self, transaction: Transaction, group: str, at: TopicPartition, offset: int, metadata: str) -> None:
        """The group's offset, committed when the transaction is."""
        from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
        from barnabas.wire.messages.txn_offset_commit import (
            TxnOffsetCommitRequest,
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        transactional_id, producer_id, epoch = key, *_ = transaction
        joining = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        joined = self._until_free(lambda: self._ask("transaction", key, joining, ADD_OFFSETS_VERSION_MAX), key)
        check(joined.error_code, f"Offsets of group {group} cannot be committed in transaction {key}")
        topic, partition = at
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        answer = self._until_free(lambda: self._ask("group", group, request, OFFSET_COMMIT_VERSION_MAX), key)
        check(answer.topics[0].partitions[0].error_code, f"The offset of {topic}-{partition} was not taken")

    def committed_offset(self, group: str, at: TopicPartition) -> CommittedOffset | None:
        """Waits until no open transaction may change it any more. None if the group never committed one."""
        from barnabas.wire.messages.offset_fetch import (
            OffsetFetchRequest,
            OffsetFetchRequestGroup,
            OffsetFetchRequestTopic,
            OffsetFetchRequestTopics,
        )

        topic, partition = at
        old = OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
        new = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])

        def fetch() -> Any:
            version = self._version("group", group, OffsetFetchRequest, OFFSET_FETCH_VERSION_MAX)
            if version >= 8:
                request = OffsetFetchRequest(
                    groups=[OffsetFetchRequestGroup(group_id=group, topics=[new])], require_stable=True
                )
            else:
                request = OffsetFetchRequest(group_id=group, topics=[old], require_stable=True)
            answer = self.cluster.ask_coordinator("group", group, request, version=version)
            return answer.groups[0] if version >= 8 else answer

        answer = self._until_free(fetch, group, patient=UNSTABLE)
        check(answer.error_code, f"The offsets of group {group} were not told")
        found = answer.topics[0].partitions[0]
        check(found.error_code, f"The offset of {topic}-{partition} in group {group} was not told")
        return CommittedOffset(found.committed_offset, found.metadata or "") if found.committed_offset >= 0 else None

    def end(self, transaction: Transaction, *, commit: bool) -> None:
        """May be repeated, with the same outcome, by any process that knows the transaction."""
        from barnabas.wire.messages.end_txn import EndTxnRequest

        transactional_id, producer_id, epoch = transaction
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        answer = self._until_free(
            lambda: self._ask("transaction", transactional_id, request, END_VERSION_MAX), transactional_id
        )
        check(answer.error_code, f"Transaction {transactional_id} cannot be {'committed' if commit else 'aborted'}")

    def open_transactions(self, prefix: str) -> list[str]:
        """The transactional ids that begin so and have an open transaction, on any broker."""
        from barnabas.wire.messages.list_transactions import ListTransactionsRequest

        found: set[str] = set()
        for node_id in self.cluster.metadata([]).brokers:
            version = self.cluster.connection(node_id).version_of(ListTransactionsRequest)
            pattern = re.escape(prefix) + ".*" if version >= 2 else None
            request = ListTransactionsRequest(state_filters=["Ongoing"], transactional_id_pattern=pattern)

            def listed(node_id: int = node_id, request: Request = request) -> Any:
                return self.cluster.ask_node(node_id, request)

            answer = self._until_free(listed, prefix, patient={ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
            check(answer.error_code, f"Node {node_id} does not list its transactions")
            found |= {state.transactional_id for state in answer.transaction_states}
        return sorted(one for one in found if one.startswith(prefix))

    def _ask(self, kind: CoordinatorKind, key: str, request: Request, version_max: int | None = None) -> Any:
        version = None if version_max is None else self._version(kind, key, type(request), version_max)
        return self.cluster.ask_coordinator(kind, key, request, version=version)

    def _version(self, kind: CoordinatorKind, key: str, request: type[Request], version_max: int) -> int:
        connection = self.cluster.connection(self.cluster.coordinator(kind, key))
        return min(connection.version_of(request), version_max)

    def _until_free(
        self, ask: Callable[[], Answer], key: str, *, patient: Iterable[ErrorCode] = STILL_ENDING
    ) -> Answer:
        """Asks again, after short pauses, while the transaction before is still being ended."""
        from barnabas.client.cluster import error_codes

        deadline = time.monotonic() + self.cluster.settings.default_api_timeout_ms / 1000
        waiting_for = STILL_ENDING.union(patient)
        pause_s = FIRST_PAUSE_S
        while True:
            answer = ask()
            codes = set(error_codes(answer))
            if not codes & waiting_for:
                return answer
            if time.monotonic() > deadline:
                names = ", ".join(sorted(code.name for code in codes))
                timeout_ms = self.cluster.settings.default_api_timeout_ms
                raise TimedOut(f"{key} was not free within {timeout_ms} ms ({names}).")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)


def check(code: int, what: str) -> None:
    if code:
        raise Refused(known_code(code), what)
