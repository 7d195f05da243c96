"""What a topology writes to topics, by the tasks of its last stage.

Exactly once, a task's transaction holds its rows and the number of the batch, and the task commits it; Spark notes a
batch as done when all of its tasks have. A task that finds its batch committed writes nothing. Where tasks read topics,
their parts of a batch are offsets, the same in every replay: what a function wrote that was mended since stays. Behind
a shuffle they depend on keys that functions gave, and what a replay gives is compared with what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError
from barnabas.pipelines.spark.reading_on import Steps
from barnabas.pipelines.spark.sink.link import drop_link, shared_link
from barnabas.pipelines.spark.sink.messages import Digest, Trace
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.rows import RowRules
from barnabas.pipelines.streams.plan import Plan
from barnabas.pipelines.streams.state.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipelines.spark.sink.own_turn import OwnTurn

SINK_NAME = "sink"


@dataclass(frozen=True)
class TopicSink:
    """`checkpoint` tells the id of the query, by which its transactions are named."""

    options: SinkOptions
    rules: RowRules
    checkpoint: str
    storage: Storage = field(default_factory=Storage)

    @property
    def exactly_once(self) -> bool:
        return self.options.exactly_once

    def write(self, rows: Iterator[pa.RecordBatch], part: str) -> None:
        """`part` names the offsets that all rows come from, if there is such a part."""
        from barnabas.pipelines.spark.sink.commit import commit_own
        from barnabas.pipelines.spark.sink.writers import (
            task_context,
            turn_of_query,
            write_in_transaction,
            write_plainly,
        )

        if not self.options.exactly_once:
            write_plainly(rows, self.rules, self.options)
            return
        turn = turn_of_query(task_context(), SINK_NAME)
        assert turn is not None, "a topology is a streaming query"
        message = write_in_transaction(turn, rows, self.rules, self.options, digest_of(part) if part else None)
        for _ in rows:
            pass  # of a batch that was committed: its state is still to be written
        try:
            commit_own(message, shared_link(self.options.properties), self.options)
        except BaseException:
            drop_link(self.options.properties)
            raise

    @contextlib.contextmanager
    def own_turn(self, part: str) -> Iterator[OwnTurn]:
        """Of a task that may write one transaction after the other."""
        from barnabas.pipelines.spark.sink.own_turn import OwnTurn
        from barnabas.pipelines.spark.sink.writers import task_context, turn_of_query

        turn = turn_of_query(task_context(), SINK_NAME)
        assert turn is not None, "a topology is a streaming query"
        try:
            own = OwnTurn(turn, self.rules, shared_link(self.options.properties), self.options, digest_of(part))
            yield own
            own.close()
        except BaseException:
            drop_link(self.options.properties)
            raise

    def ran_on(self) -> Steps:
        """How far the task that had the last batch for itself went on."""
        prefix = self._prefix()
        if prefix is None:
            return Steps(())
        transactions = shared_link(self.options.properties).transactions
        mark = transactions.last_mark(f"{prefix}0", self.options.anchor_topic)
        return Steps(()) if mark is None else Steps.parse(Trace.parse(mark.metadata).onward)

    def _prefix(self) -> str | None:
        """Of its transactional ids; None before Spark has given the query an id."""
        try:
            metadata = self.storage.at(self.checkpoint).read("metadata")
        except FileNotFoundError:
            return None
        return f"barnabas.{json.loads(metadata)['id']}.{SINK_NAME}."

    def end_open(self, *, runs_on: bool = False) -> None:
        """Ends transactions of tasks that were killed: they would hide later records until they time out. A task that
        runs on and has not noticed its end yet is shut out."""
        prefix = self._prefix() if self.options.exactly_once else None
        if prefix is None:
            return
        transactions = shared_link(self.options.properties).transactions
        try:
            for one in {*transactions.open_transactions(prefix), *([f"{prefix}0"] if runs_on else [])}:
                transactions.begin(one, self.options.transaction_timeout_ms)
        except ClientError:
            pass  # the cluster can't be reached: they time out


def digest_of(part: str) -> Digest:
    return Digest(0, int.from_bytes(hashlib.sha256(part.encode()).digest()[:8], "big"))


def topic_sink(plan: Plan, settings: Mapping[str, str], *, exactly_once: bool) -> TopicSink | None:
    """None for a topology that writes to no topic."""
    from barnabas.pipelines.streams.stage import TIMESTAMP, sink_schema

    topics = {sink.topic for stage in plan.stages for sink in stage.sinks}
    topics |= {plan.dead_letter} if plan.dead_letter is not None else set()
    if not topics:
        return None
    given = {**settings, "exactlyOnce": str(exactly_once).lower(), "timestampColumn": TIMESTAMP}
    if len(topics) == 1:
        (given["topic"],) = topics
    options = SinkOptions.parse(given)
    columns = [name for name in sink_schema(plan).names if name != TIMESTAMP and (name != "topic" or not options.topic)]
    rules = RowRules(options.topic, tuple(columns), TIMESTAMP)
    return TopicSink(options, rules, plan.checkpoint_address, plan.storage)
