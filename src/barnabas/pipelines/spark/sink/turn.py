"""One task's turn of an exactly-once sink; the protocol is told in commit.py."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from barnabas.client import transaction as client
from barnabas.client.batch_sender import BatchSender
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.pipelines.spark.sink.columns import rows_of
from barnabas.pipelines.spark.sink.commit import abort_quietly, leave_mark, why_not
from barnabas.pipelines.spark.sink.link import SinkLink
from barnabas.pipelines.spark.sink.messages import (
    Digest,
    Message,
    Prepared,
    SinkError,
    Skipped,
    Trace,
    Turn,
    Unrepeatable,
)
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.rows import RowRules
from barnabas.pipelines.spark.sink.transactions import SinkTransaction
from barnabas.pipelines.spark.sink.writer import TaskWriter, digest_of


def write_turn(
    turn: Turn,
    batches: Iterable[pa.RecordBatch],
    rules: RowRules,
    link: SinkLink,
    options: SinkOptions,
    known_as: Digest | None = None,
) -> Message:
    """A replay is known by the digest of its rows, or by `known_as`: then its rows are not looked at."""
    began_s = time.time()
    transaction, trace, is_done, of_group = begin_turn(turn, link, options)
    if is_done:
        assert trace is not None
        if known_as is None:
            known_as = sum((digest_of(rows) for rows in rows_of(batches, rules)), Digest())
        return Skipped(turn, trace.digest, known_as)
    try:
        found = _fill(transaction, turn, batches, rules, link, options, known_as)
    except BaseException as error:
        abort_quietly(link.transactions, transaction)
        if isinstance(error, Refused):
            raise why_not(turn, began_s, error, options) from error
        raise
    first_of_run = trace is None or not turn.run or trace.run != turn.run
    return Prepared(turn, transaction, found, began_s, first_of_run, of_group)


class Begun(NamedTuple):
    transaction: SinkTransaction
    trace: Trace | None  # of the batch that was committed last under the id
    is_done: bool  # that batch is the one at hand
    of_group: bool  # told by the group of an older version


def begin_turn(turn: Turn, link: SinkLink, options: SinkOptions) -> Begun:
    transactions = link.transactions
    transaction = transactions.begin(turn.transactional_id, options.transaction_timeout_ms)
    last = transactions.last_mark(turn.transactional_id, options.anchor_topic)
    former = None
    if last is None and turn.batch is not None:
        last = former = transactions.last_of_group(turn.transactional_id, options.former_anchor_topic)
    if turn.batch is None and last is not None:
        raise SinkError(f"task {turn.task} of {turn.what} came after it had been given up")
    trace = None if last is None else Trace.parse(last.metadata)
    if turn.batch is not None and last is not None and last.offset > turn.batch:
        if last.offset > turn.batch + 1:
            raise Unrepeatable(
                f"{turn.what} is to be written, and batch {last.offset - 1} has been already: the checkpoint is older "
                f"than the output, or two queries or sinks share a name"
            )
        return Begun(transaction, trace, True, former is not None)
    return Begun(transaction, trace, False, former is not None)


def _fill(
    transaction: SinkTransaction,
    turn: Turn,
    batches: Iterable[pa.RecordBatch],
    rules: RowRules,
    link: SinkLink,
    options: SinkOptions,
    known_as: Digest | None,
) -> Digest:
    transactions = link.transactions
    marks = [] if turn.batch is None else transactions.marks_partition(options.anchor_topic)
    known = client.ProducerTransaction(PreparedTransaction(*transaction))
    sender = BatchSender(link.cluster, options.producer, known, link.batch_connections)

    def announce(partitions: list[TopicPartition]) -> None:
        transactions.add_partitions(transaction, [*partitions, *marks])
        known.partitions.update(partitions)

    writer = TaskWriter(link, options, sender, announce=announce, first=turn.task + (turn.batch or 0))
    found = known_as or Digest()
    try:
        for rows in rows_of(batches, rules):
            if turn.batch is not None and known_as is None:  # else there is no replay to compare with
                found += digest_of(rows)
            writer.write(rows)
        writer.flush()
    finally:
        sender.close()
    if turn.batch is not None:
        leave_mark(transaction, turn.batch + 1, str(Trace(found, turn.run)), link, options)
    return found
