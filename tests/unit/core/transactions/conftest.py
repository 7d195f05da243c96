"""A coordinator whose log is a list: decisions are appended and committed when the test says so, at once by default."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord, decode
from barnabas.core.coordinator.runtime import ShardRuntime
from barnabas.core.coordinator.timers import Timers
from barnabas.core.transactions.decide import (
    AddPartitions,
    InitProducerId,
    ProducerIdAndEpoch,
    add_partitions,
    init_producer_id,
)
from barnabas.core.transactions.ending import Ended, EndTransaction, complete, end_transaction
from barnabas.core.transactions.state import TopicPartition, Transaction, Transactions
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(KafkaError) as raised:
        yield
    assert raised.value.code is code


class CoordinatorInATest:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.prepared: list[str] = []
        self.next_producer_id = 70
        self.load()

    def load(self) -> None:
        """As after a restart: a new shard, and the log replayed into it."""
        self.transactions = Transactions(Timers(lambda: self.now_ms))
        self.transactions.on_prepared = self.prepared.append
        self.runtime = ShardRuntime(self.transactions)
        for key, value in self.log:
            record = decode(self.transactions.kinds, key, value)
            assert record is not None
            self.transactions.replay(record, None)
        self.transactions.loaded()

    def decide(self, operation: Callable[[Transactions], Decision[T]]) -> T:
        promise = self.runtime.decide(operation)
        self.commit()
        return promise.result()

    def commit(self) -> None:
        for batch in self.runtime.unwritten():
            self.log += batch.records
            self.runtime.appended(batch, len(self.log))
        self.runtime.committed(len(self.log))

    def fail(self) -> None:
        self.runtime.append_failed(KafkaError(ErrorCode.NOT_COORDINATOR))

    def init(
        self, name: str = "tx", *, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000, version: int = 2
    ) -> ProducerIdAndEpoch:
        asked = InitProducerId(
            transactional_id=name,
            timeout_ms=timeout_ms,
            expected=None if expected is None else ProducerIdAndEpoch(*expected),
            transaction_version=version,
            new_producer_id=self.next_producer_id,
        )
        found = self.transactions.by_id.get(name)
        if found is None or found.is_epoch_exhausted:
            self.next_producer_id += 1
        return self.decide(lambda transactions: init_producer_id(transactions, asked, self.now_ms))

    def add(
        self, producer_id: int, epoch: int, *partitions: TopicPartition, name: str = "tx", client_version: int = 0
    ) -> None:
        asked = AddPartitions(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=frozenset(partitions),
            client_version=client_version,
        )
        self.decide(lambda transactions: add_partitions(transactions, asked, self.now_ms))

    def end(
        self, producer_id: int, epoch: int, committed: bool = True, *, name: str = "tx", client_version: int = 2
    ) -> Ended:
        asked = EndTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
            client_version=client_version,
            new_producer_id=self.next_producer_id,
        )
        return self.decide(lambda transactions: end_transaction(transactions, asked, self.now_ms))

    def complete(self, name: str = "tx") -> None:
        self.decide(lambda transactions: complete(transactions, self[name], 2, self.now_ms))

    def __getitem__(self, name: str) -> Transaction:
        return self.transactions.by_id[name]

    def place(self, transaction: Transaction) -> None:
        """As if the log said so."""
        from barnabas.core.transactions.records import record_of

        self.decide(lambda _: Decision([record_of(transaction, 2)], None))

    def last_record(self) -> CoordinatorRecord:
        record = decode(self.transactions.kinds, *self.log[-1])
        assert record is not None
        return record


@pytest.fixture
def coordinator() -> CoordinatorInATest:
    return CoordinatorInATest()
