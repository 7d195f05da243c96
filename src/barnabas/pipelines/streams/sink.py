"""What a topology writes to topics, by the tasks of its last stage.

Exactly once, a task's transaction holds its rows and the number of the batch, and the task commits it; Spark notes a
batch as done when all of its tasks have. A task that finds its batch committed writes nothing. Where tasks read topics,
their parts of a batch are offsets, the same in every replay: what a function wrote that was mended since stays. Behind
a shuffle they depend on keys that functions gave, and what a replay gives is compared with what was written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError
from barnabas.pipelines.spark.sink.link import drop_link, link_to
from barnabas.pipelines.spark.sink.messages import Digest
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.rows import RowRules
from barnabas.pipelines.streams.plan import Plan
from barnabas.pipelines.streams.state.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

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
        known_as = Digest(0, int.from_bytes(hashlib.sha256(part.encode()).digest()[:8], "big")) if part else None
        message = write_in_transaction(turn, rows, self.rules, self.options, known_as)
        for _ in rows:
            pass  # of a batch that was committed: its state is still to be written
        try:
            commit_own(message, link_to(self.options.properties), self.options)
        except BaseException:
            drop_link(self.options.properties)
            raise

    def end_open(self) -> None:
        """Ends transactions of tasks that were killed: they would hide later records until they time out."""
        if not self.options.exactly_once:
            return
        try:
            metadata = self.storage.at(self.checkpoint).read("metadata")
        except FileNotFoundError:
            return
        transactions = link_to(self.options.properties).transactions
        try:
            for one in transactions.open_transactions(f"barnabas.{json.loads(metadata)['id']}.{SINK_NAME}."):
                transactions.begin(one, self.options.transaction_timeout_ms)
        except ClientError:
            pass  # the cluster can't be reached: they time out


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
