"""Exactly once: tasks prepare transactions, the driver commits them, and a replayed batch is known by its traces.

A task owns the transactional id barnabas.{query}.{sink}.{task}, whatever the attempt. It
1. begins, which ends what a former attempt, run or driver left under that id and shuts it out;
2. reads its last mark in the anchor topic (marks.py): the batch last written, plus one. As it was committed in the same
   transaction as the batch's rows, either both are there or neither is;
3. if that is this batch, writes nothing, and reports the digest of the rows beside the one that was committed;
4. else writes the rows and a mark of this batch with their digest, and leaves the transaction open.

The driver commits them in the order of the tasks, each after the one before was accepted. So what is committed of a
batch at any moment are its first tasks. In a replay
- every task that finds its batch committed with the same digest is done, the others are written again. This holds for
  any number of tasks, because the rows of the batch as a whole are the same;
- if a digest differs, rows moved between tasks or are other rows. All tasks that committed this batch are then summed
  up and compared with the sum of the replay: equal sums mean that everything had been written and rows only moved;
- anything else is a query that is not deterministic, and fails: nobody can say what is missing.

A write that belongs to no query has ids of its own, which nobody takes up later. Spark gives it up while tasks that it
has told to stop may still be on their way to `begin`. So the driver takes over the id of every task that has not
answered, and leaves a committed mark under it: a task either began before, and is shut out, or finds the mark and
writes nothing.

Versions before marks committed an offset on the anchor topic, for the group of the id's name. Where there is no mark,
that offset counts; the group is deleted when the first mark is committed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence

from barnabas.client.errors import ClientError, Refused
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
from barnabas.pipelines.spark.sink.transactions import FENCED, CommittedOffset, SinkTransaction, TransactionalProducer

CLOSING_ATTEMPTS = 10  # a task has few attempts of its own
CLOSED = "given up"

log = logging.getLogger("barnabas.spark.sink")


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
    raise Unrepeatable(
        f"{skipped[0].turn.what} is not deterministic: {task} tasks had committed {written.rows} rows of it, and its "
        f"replay, {len(messages)} tasks with {rows} rows in all, does not contain them as they were. Nothing more was "
        "written. Sources must give the same rows again, sinks of one query need different sinkNames, and a batch that "
        "was interrupted must be replayed with the settings it had"
    )


def commit_prepared(messages: Sequence[Message], link: SinkLink, options: SinkOptions) -> None:
    transactions = link.transactions
    turn = messages[0].turn

    def committed(task: int) -> Digest | None:
        name = f"{turn.prefix}{task}"
        last = transactions.last_mark(name, options.anchor_topic)
        last = last or transactions.last_of_group(name, options.former_anchor_topic)
        if last is None or turn.batch is None or last.offset != turn.batch + 1:
            return None
        return Trace.parse(last.metadata).digest

    if turn.batch is not None and any(isinstance(one, Skipped) or one.first_of_run for one in messages):
        end_leftovers(transactions, turn.prefix, len(messages), options.transaction_timeout_ms)
    chosen = to_commit(messages, committed)
    for ready in chosen:
        _commit(ready, transactions, options)
    if not chosen:
        abort_prepared(messages, link)


def commit_own(message: Message, link: SinkLink, options: SinkOptions) -> None:
    """By the task itself, whose part of the batch is the same in every replay."""
    if isinstance(message, Prepared):
        _commit(message, link.transactions, options)
    elif message.committed != message.digest:
        raise Unrepeatable(
            f"{message.turn.what} is not deterministic: what task {message.turn.task} has committed of it is not what "
            "its replay gives. Nothing more was written. Functions must give the same results again until a batch that "
            "was interrupted is done"
        )


def _commit(ready: Prepared, transactions: TransactionalProducer, options: SinkOptions) -> None:
    try:
        transactions.end(ready.transaction, commit=True)
    except Refused as refused:
        raise why_not(ready.turn, ready.began_s, refused, options) from refused
    if ready.former_group:
        with contextlib.suppress(ClientError):  # it is of no use any more, and does no harm
            transactions.delete_group(ready.turn.transactional_id)


def abort_turn(messages: Sequence[Message | None], link: SinkLink, options: SinkOptions, *, own_prefix: str) -> None:
    """Tasks that have no message failed or were killed on the way, perhaps with a transaction open. `own_prefix` is
    that of a write of no query."""
    abort_prepared(messages, link)
    of_query = next((one.turn.prefix for one in messages if one is not None and one.turn.batch is not None), None)
    for task in (number for number, one in enumerate(messages) if one is None):
        try:
            if of_query is not None:
                link.transactions.begin(f"{of_query}{task}", options.transaction_timeout_ms)
            elif own_prefix:
                close_id(f"{own_prefix}{task}", link, options)
        except ClientError as error:  # it ends by itself when it times out
            log.info("could not end the transaction of task %d, it ends by its time-out: %s", task, error)
            if not isinstance(error, Refused):
                return  # the cluster cannot be reached


def close_id(transactional_id: str, link: SinkLink, options: SinkOptions) -> None:
    """Ends what is open under an id, and lets no later task write under it. A task that begins at this very moment
    shuts this out, and is shut out in turn."""
    for _ in range(CLOSING_ATTEMPTS):
        transaction = link.transactions.begin(transactional_id, options.transaction_timeout_ms)
        try:
            leave_mark(transaction, 0, CLOSED, link, options)
            link.transactions.end(transaction, commit=True)
            return
        except Refused as refused:
            if refused.code not in FENCED:
                raise


def leave_mark(transaction: SinkTransaction, offset: int, metadata: str, link: SinkLink, options: SinkOptions) -> None:
    """In the anchor topic, committed when the transaction is."""
    link.transactions.leave_mark(transaction, options.anchor_topic, CommittedOffset(offset, metadata))


def abort_prepared(messages: Iterable[Message | None], link: SinkLink) -> None:
    for one in messages:
        if isinstance(one, Prepared):
            abort_quietly(link.transactions, one.transaction)


def end_leftovers(transactions: TransactionalProducer, prefix: str, tasks: int, timeout_ms: int) -> None:
    """What a dead driver left open under numbers that no task has now would hide later records until it times out."""
    for transactional_id in transactions.open_transactions(prefix):
        number = transactional_id.removeprefix(prefix)
        if number.isdigit() and int(number) >= tasks:
            transactions.begin(transactional_id, timeout_ms)


def why_not(turn: Turn, began_s: float, refused: Refused, options: SinkOptions) -> Exception:
    """The sentence for a transaction that is not one's own any more."""
    if refused.code not in FENCED:
        return refused
    elapsed_ms = int((time.time() - began_s) * 1000)
    if elapsed_ms >= options.transaction_timeout_ms:
        return SinkError(
            f"{turn.what} took {elapsed_ms} ms, longer than its transactions live "
            f"({options.transaction_timeout_ms} ms), and task {turn.task} of it was not written: make batches "
            "smaller, or raise kafka.transaction.timeout.ms (up to 15 minutes)"
        )
    return SinkError(
        f"task {turn.task} of {turn.what} was not written: another attempt or another run of the query shut it "
        f"out ({refused.code.name})"
    )


def abort_quietly(transactions: TransactionalProducer, transaction: SinkTransaction) -> None:
    try:
        transactions.end(transaction, commit=False)
    except ClientError as error:  # it ends by itself when it times out, or has been ended
        log.info(
            "could not abort the transaction of %s, it ends by its time-out: %s", transaction.transactional_id, error
        )
