"""A turn that the task commits itself, and may go on with: one transaction after the other.

The task begins once. All its transactions have the same producer id and epoch, and batches go on in their sequence. Who
begins under the id later (another attempt, another driver) shuts this task out for good. It must not begin again: what
it would write then may have been given to the other meanwhile.

Each transaction leaves a mark with the number of the batch and what the caller notes beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pyarrow as pa

from barnabas.client import transaction as client
from barnabas.client.batch_sender import BatchSender
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.pipelines.spark.sink.columns import rows_of
from barnabas.pipelines.spark.sink.commit import abort_quietly, commit_own, why_not
from barnabas.pipelines.spark.sink.link import SinkLink
from barnabas.pipelines.spark.sink.marks import PARTITION, mark_batch
from barnabas.pipelines.spark.sink.messages import Digest, Prepared, Skipped, Trace, Turn
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.rows import RowRules
from barnabas.pipelines.spark.sink.transactions import CommittedOffset
from barnabas.pipelines.spark.sink.turn import begin_turn
from barnabas.pipelines.spark.sink.writer import TaskWriter


class OwnTurn:
    """`known_as` names the task's part of the batch, the same in every replay. `committed` is what a former attempt
    left of this very batch: then nothing is to be written."""

    def __init__(self, turn: Turn, rules: RowRules, link: SinkLink, options: SinkOptions, known_as: Digest) -> None:
        self._turn, self._rules, self._link, self._options, self._known_as = turn, rules, link, options, known_as
        self._began_s = time.time()
        self._transaction, trace, is_done, self._of_group = begin_turn(turn, link, options)
        self.committed = trace if is_done else None
        if self.committed is not None:
            commit_own(Skipped(turn, self.committed.digest, known_as), link, options)
        self._known = client.ProducerTransaction(PreparedTransaction(*self._transaction))
        self._sender = BatchSender(link.cluster, options.producer, self._known, link.batch_connections)
        self._marks = link.transactions.marks_partition(options.anchor_topic)

    def write(self, batches: Iterable[pa.RecordBatch], onward: str = "") -> None:
        """A transaction with these rows and a mark, committed."""
        assert self.committed is None
        assert self._turn.batch is not None
        first = self._turn.task + self._turn.batch
        writer = TaskWriter(self._link, self._options, self._sender, announce=self._announce, first=first)
        try:
            for rows in rows_of(batches, self._rules):
                writer.write(rows)
            self._announce([])
            told = Trace(self._known_as, self._turn.run, onward)
            mark = mark_batch(self._turn.transactional_id, CommittedOffset(self._turn.batch + 1, str(told)))
            self._sender.send(self._options.anchor_topic, PARTITION, mark)
            self._sender.flush()
        except BaseException as error:
            abort_quietly(self._link.transactions, self._transaction)
            if isinstance(error, Refused):
                raise why_not(self._turn, self._began_s, error, self._options) from error
            raise
        written = Prepared(self._turn, self._transaction, self._known_as, self._began_s, False, self._of_group)
        commit_own(written, self._link, self._options)
        self._known.partitions.clear()
        self._of_group = False
        self._began_s = time.time()

    def close(self) -> None:
        self._sender.close()

    def _announce(self, partitions: list[TopicPartition]) -> None:
        """The mark's partition is added with the first ones, by the same request."""
        self._link.transactions.add_partitions(self._transaction, [*partitions, *self._marks])
        self._known.partitions.update(partitions, self._marks)
