"""Exactly once: tasks prepare transactions, the driver commits them, and a replayed batch is known by its traces.

A task owns the transactional id barnabas.{query}.{sink}.{task}, whatever the attempt. It
1. begins, which ends what a former attempt, run or driver left under that id and shuts it out;
2. reads the offset that the group of the same name committed on the anchor topic: the batch last written, plus one.
   As it was committed in the same transaction as the batch's rows, either both are there or neither is;
3. if that is this batch, writes nothing, and reports the digest of the rows beside the one that was committed;
4. else writes the rows and adds the offset of this batch with their digest, and leaves the transaction open.

The driver commits them in the order of the tasks, each after the one before was accepted. So what is committed of a
batch at any moment are its first tasks. In a replay
- every task that finds its batch committed with the same digest is done, the others are written again. This holds for
  any number of tasks, because the rows of the batch as a whole are the same;
- if a digest differs, rows moved between tasks or are other rows. All tasks that committed this batch are then summed
  up and compared with the sum of the replay: equal sums mean that everything had been written and rows only moved;
- anything else is a query that is not deterministic, and fails: nobody can say what is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from barnabas.client.errors import ClientError, Refused
from barnabas.pipelines.spark.sink_digest import Digest
from barnabas.pipelines.spark.sink_link import Link, ProducerIdentity
from barnabas.pipelines.spark.sink_options import SinkOptions
from barnabas.pipelines.spark.sink_rows import RowRules
from barnabas.pipelines.spark.sink_transactions import FENCED, CommittedOffset, Transaction, TransactionalProducer
from barnabas.pipelines.spark.sink_writer import TaskWriter, digest_of, rows_of
from barnabas.wire.errors import ErrorCode

ANCHOR_PATIENCE_S = 10.0
log = logging.getLogger("barnabas.spark.sink")


class SinkError(Exception):
    """A batch that cannot be written or committed; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Which part of which batch a task writes. A batch that belongs to no query has no number and leaves no trace."""

    prefix: str
    task: int
    batch: int | None
    run: str = ""

    @property
    def transactional_id(self) -> str:
        return f"{self.prefix}{self.task}"

    @property
    def what(self) -> str:
        return "this write" if self.batch is None else f"batch {self.batch} of {self.prefix.rstrip('.')}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a committed batch leaves on the anchor, beside its number: told apart by digest and run."""

    digest: Digest
    run: str

    def __str__(self) -> str:
        return f"{self.digest.rows} {self.digest.hash:016x} {self.run}"

    @classmethod
    def parse(cls, text: str) -> Trace:
        try:
            rows, digest, run = f"{text} ".split(" ", 2)
            return cls(Digest(int(rows), int(digest, 16)), run.strip())
        except ValueError:
            raise SinkError(f"the anchor topic holds '{text}', which this sink has not written") from None


@dataclass(frozen=True)
class Prepared(WriterCommitMessage):
    turn: Turn
    transaction: Transaction
    digest: Digest
    began_s: float
    first_of_run: bool


@dataclass(frozen=True)
class Skipped(WriterCommitMessage):
    turn: Turn
    committed: Digest
    digest: Digest


Message = Prepared | Skipped


def write_turn(
    turn: Turn, batches: Iterable[pa.RecordBatch], rules: RowRules, link: Link, options: SinkOptions
) -> Message:
    began_s = time.time()
    transactions = link.transactions
    transaction = transactions.begin(turn.transactional_id, options.transaction_timeout_ms)
    last = None
    if turn.batch is not None:
        last = transactions.committed_offset(turn.transactional_id, (options.anchor_topic, 0))
    trace = None if last is None else Trace.parse(last.metadata)
    if turn.batch is not None and last is not None and last.offset > turn.batch:
        if last.offset > turn.batch + 1:
            raise SinkError(
                f"{turn.what} is to be written, and batch {last.offset - 1} has been already: the checkpoint is older "
                f"than the output, or two queries or sinks share a name"
            )
        assert trace is not None
        return Skipped(turn, trace.digest, sum((digest_of(rows) for rows in rows_of(batches, rules)), Digest()))
    try:
        found = _fill(transaction, turn, batches, rules, link, options)
    except BaseException:
        _abort(transactions, transaction)
        raise
    first_of_run = trace is None or not turn.run or trace.run != turn.run
    return Prepared(turn, transaction, found, began_s, first_of_run)


def _fill(
    transaction: Transaction,
    turn: Turn,
    batches: Iterable[pa.RecordBatch],
    rules: RowRules,
    link: Link,
    options: SinkOptions,
) -> Digest:
    transactions = link.transactions
    writer = TaskWriter(
        link,
        options,
        identity=ProducerIdentity(transaction.producer_id, transaction.epoch),
        transactional_id=transaction.transactional_id,
        announce=lambda partitions: transactions.add_partitions(transaction, partitions),
        first=turn.task + (turn.batch or 0),
    )
    found = Digest()
    try:
        for rows in rows_of(batches, rules):
            found += digest_of(rows)
            writer.write(rows)
        writer.flush()
    finally:
        writer.close()
    if turn.batch is not None:
        _leave_trace(transaction, turn, found, link, options)
    return found


def _leave_trace(transaction: Transaction, turn: Turn, found: Digest, link: Link, options: SinkOptions) -> None:
    assert turn.batch is not None
    deadline = time.monotonic() + ANCHOR_PATIENCE_S
    while True:
        try:
            link.transactions.add_offset(
                transaction,
                turn.transactional_id,
                (options.anchor_topic, 0),
                turn.batch + 1,
                str(Trace(found, turn.run)),
            )
            return
        except Refused as refused:
            if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or time.monotonic() > deadline:
                raise
        link.create_topic(options.anchor_topic)
        time.sleep(0.05)


def to_commit(messages: Sequence[Message], committed: Callable[[int], Digest | None]) -> list[Prepared]:
    """The transactions that make the batch complete, in the order of committing. `committed` tells what a task of a
    number that is not among the messages has committed of this very batch, in whatever run."""
    by_task = {one.turn.task: one for one in messages}
    prepared = [one for _, one in sorted(by_task.items()) if isinstance(one, Prepared)]
    skipped = [one for one in messages if isinstance(one, Skipped)]
    if all(one.committed == one.digest for one in skipped):
        return prepared
    written = Digest()
    task = 0
    while True:
        now = by_task.get(task)
        before = committed(task) if now is None else now.committed if isinstance(now, Skipped) else None
        if before is None:
            break
        written += before
        task += 1
    if written == sum((one.digest for one in messages), Digest()):
        return []
    rows = sum(one.digest.rows for one in messages)
    raise SinkError(
        f"{skipped[0].turn.what} is not deterministic: {task} tasks had committed {written.rows} rows of it, and its "
        f"replay, {len(messages)} tasks with {rows} rows in all, does not contain them as they were. Nothing more was "
        "written. Sources must give the same rows again, sinks of one query need different sinkNames, and a batch that "
        "was interrupted must be replayed with the settings it had"
    )


def commit(messages: Sequence[Message], link: Link, options: SinkOptions) -> None:
    transactions = link.transactions
    turn = messages[0].turn

    def committed(task: int) -> Digest | None:
        at = (options.anchor_topic, 0)
        last: CommittedOffset | None = transactions.committed_offset(f"{turn.prefix}{task}", at)
        if last is None or turn.batch is None or last.offset != turn.batch + 1:
            return None
        return Trace.parse(last.metadata).digest

    if turn.batch is not None and any(isinstance(one, Skipped) or one.first_of_run for one in messages):
        end_leftovers(transactions, turn.prefix, len(messages), options.transaction_timeout_ms)
    chosen = to_commit(messages, committed)
    for ready in chosen:
        try:
            transactions.end(ready.transaction, commit=True)
        except Refused as refused:
            raise _why_not(ready, refused, options) from refused
    if not chosen:
        abort(messages, link)


def abort(messages: Iterable[Message | None], link: Link) -> None:
    for one in messages:
        if isinstance(one, Prepared):
            _abort(link.transactions, one.transaction)


def end_leftovers(transactions: TransactionalProducer, prefix: str, tasks: int, timeout_ms: int) -> None:
    """What a dead driver left open under numbers that no task has now would hide later records until it times out."""
    for transactional_id in transactions.open_transactions(prefix):
        number = transactional_id.removeprefix(prefix)
        if number.isdigit() and int(number) >= tasks:
            transactions.begin(transactional_id, timeout_ms)


def _why_not(one: Prepared, refused: Refused, options: SinkOptions) -> Exception:
    if refused.code not in FENCED:
        return refused
    elapsed_ms = int((time.time() - one.began_s) * 1000)
    if elapsed_ms >= options.transaction_timeout_ms:
        return SinkError(
            f"{one.turn.what} took {elapsed_ms} ms, longer than its transactions live "
            f"({options.transaction_timeout_ms} ms), and task {one.turn.task} of it was not written: make batches "
            "smaller, or raise kafka.transaction.timeout.ms (up to 15 minutes)"
        )
    return SinkError(
        f"task {one.turn.task} of {one.turn.what} was not written: another attempt or another run of the query shut it "
        f"out ({refused.code.name})"
    )


def _abort(transactions: TransactionalProducer, transaction: Transaction) -> None:
    try:
        transactions.end(transaction, commit=False)
    except ClientError as error:  # it ends by itself when it times out, or has been ended
        log.info("%s was not aborted: %s", transaction.transactional_id, error)
