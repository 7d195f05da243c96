"""The writers that Spark asks for: at least once by default, exactly once with exactlyOnce=true.

Spark calls `write` in the tasks, and `commit` or `abort` on a copy of the writer in a process of the driver. A batch
that foreachBatch writes carries the batch number of its query among the task's local properties. What only tasks need
is imported by them: the driver's processes may live for one call.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink.commit import abort_turn, commit_prepared
from barnabas.pipelines.spark.sink.link import drop_link, shared_link
from barnabas.pipelines.spark.sink.messages import Digest, Message, Turn
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.rows import RowRules

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_PROPERTY = "streaming.sql.batchId"
QUERY_PROPERTY = "sql.streaming.queryId"
RUN_PROPERTY = "spark.jobGroup.id"  # of a streaming query, the id of its run
DEFAULT_SINK_NAME = "sink"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    rows: int


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Output mode complete appends the whole result every time, as with the JVM connector."""
    parsed = SinkOptions.parse(options)
    return StreamWriter(parsed, RowRules.of(schema, parsed.topic, parsed.timestamp_column))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    parsed = SinkOptions.parse(options)
    if overwrite:
        raise OptionError("save mode overwrite would replace what a topic holds: write with mode append")
    return BatchWriter(parsed, RowRules.of(schema, parsed.topic, parsed.timestamp_column), uuid.uuid4().hex)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, rules: RowRules) -> None:
        self.options = options
        self.rules = rules

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self.options.exactly_once:
            return write_plainly(iterator, self.rules, self.options)
        turn = turn_of_query(task_context(), self.options.sink_name or DEFAULT_SINK_NAME)
        assert turn is not None, "a streaming query without a batch number"
        return write_in_transaction(turn, iterator, self.rules, self.options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit(messages, self.options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort(messages, self.options)


class BatchWriter(DataSourceArrowWriter):
    """`write_id` names the transactions of a write that belongs to no query."""

    def __init__(self, options: SinkOptions, rules: RowRules, write_id: str) -> None:
        self.options = options
        self.rules = rules
        self.write_id = write_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self.options.exactly_once:
            return write_plainly(iterator, self.rules, self.options)
        context = task_context()
        turn = turn_of_query(context, self.options.sink_name)
        if turn is None:
            turn = Turn(self.own_prefix, context.partitionId(), None)
        return write_in_transaction(turn, iterator, self.rules, self.options)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(messages, self.options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(messages, self.options, self.own_prefix)

    @property
    def own_prefix(self) -> str:
        return f"barnabas.write.{self.write_id}."


def task_context() -> Any:
    context = TaskContext.get()
    assert context is not None, "rows are written by Spark's tasks"
    return context


def turn_of_query(context: Any, sink_name: str | None) -> Turn | None:
    """None outside of streaming queries."""
    batch, query = context.getLocalProperty(BATCH_PROPERTY), context.getLocalProperty(QUERY_PROPERTY)
    if batch is None or query is None:
        return None
    if sink_name is None:
        raise OptionError(
            "exactlyOnce=true inside foreachBatch needs a sinkName, another one for each sink of the query"
        )
    run = context.getLocalProperty(RUN_PROPERTY) or ""
    return Turn(f"barnabas.{query}.{sink_name}.", context.partitionId(), int(batch), run)


def write_plainly(batches: Iterator[pa.RecordBatch], rules: RowRules, options: SinkOptions) -> Written:
    from barnabas.pipelines.spark.sink.columns import rows_of
    from barnabas.pipelines.spark.sink.writer import TaskWriter

    link = shared_link(options.properties)
    try:
        writer = TaskWriter(link, options, link.plain_sender(options.producer), first=task_context().taskAttemptId())
        count = 0
        for rows in rows_of(batches, rules):
            writer.write(rows)
            count += len(rows)
        writer.flush()
        return Written(count)
    except BaseException:
        drop_link(options.properties)
        raise


def write_in_transaction(
    turn: Turn,
    batches: Iterator[pa.RecordBatch],
    rules: RowRules,
    options: SinkOptions,
    known_as: Digest | None = None,
) -> Message:
    from barnabas.pipelines.spark.sink.turn import write_turn

    try:
        return write_turn(turn, batches, rules, shared_link(options.properties), options, known_as)
    except BaseException:
        drop_link(options.properties)
        raise


def commit(messages: Sequence[WriterCommitMessage | None], options: SinkOptions) -> None:
    prepared: list[Message] = [one for one in messages if isinstance(one, Message)]
    if not prepared:
        return
    assert len(prepared) == len(messages), "Spark commits a batch of which tasks failed"
    try:
        commit_prepared(prepared, shared_link(options.properties), options)
    except BaseException:
        drop_link(options.properties)
        raise


def abort(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, own_prefix: str = "") -> None:
    if options.exactly_once:
        known: list[Message | None] = [one if isinstance(one, Message) else None for one in messages]
        abort_turn(known, shared_link(options.properties), options, own_prefix=own_prefix)
