"""`format("barnabas-topology")`: the first stage of a topology, run by the task that reads the records.

Records of topics go from the fetch into the operators as Arrow, in one process. Spark plans the tasks and carries what
leaves the stage. Were the stage a function behind the source, every record would go to the JVM and back first.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.data_source import BarnabasDataSource
from barnabas.pipelines.spark.offsets import StreamOffset, nested, partition_offsets
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.pipelines.spark.reading_on import ReadingOn, Steps
from barnabas.pipelines.spark.stream_reader import StreamReader
from barnabas.pipelines.spark.tasks import RangePartition, read_task
from barnabas.pipelines.spark.topics import Partitions
from barnabas.pipelines.streams.checks import check_not_grown
from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.figures import read_figures
from barnabas.pipelines.streams.in_use import InUse

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipelines.streams.plan import Plan
    from barnabas.pipelines.streams.stage import StageFunction

NAME = "barnabas-topology"
STAGE = "stage"
ROWS = "rows"
RUN_ON = "runonms"
FIGURES = "$figures"
FIGURES_S = 5.0  # between two looks at what workers have written
RAN_ON = "$ranOn"  # in an offset: where its batch begins, as a task went on behind the batch before


class TopologySource(BarnabasDataSource):
    """The option `stage` is the function over Arrow batches, `rows` the schema of what it gives, in JSON, `runonms` how
    long a task may run on."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options[ROWS]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = SourceOptions.parse(self.options)
        return StageReader(options, options.columns, self.options[STAGE], int(self.options.get(RUN_ON, "0")))


class StageReader(StreamReader):
    def __init__(self, options: SourceOptions, columns: Sequence[str], stage: str, run_on_ms: int = 0) -> None:
        super().__init__(options, columns)
        self._stage = stage
        self._run_on_ms = run_on_ms
        self._steps: Steps | None = None
        self._figures: dict[str, Any] = {}
        self._figures_due = 0.0
        self._in_use: InUse | None = None
        self._known: frozenset[TopicPartition] = frozenset()

    def initialOffset(self) -> dict[str, Any]:
        self._begin()
        return super().initialOffset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._begin()
        ran_on = self._steps_behind(StreamOffset.parse(start))
        begin = passed(start, ran_on)
        found = super().latestOffset(begin, limit)
        return found | {RAN_ON: nested(ran_on)} if ran_on else found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        self._begin()
        tasks = super().partitions(passed(start, partition_offsets(end.get(RAN_ON, {}))), end)
        if len(tasks) == 1 and self._function.can_run_on:
            until = StreamOffset.parse(end)
            ends = sorted(until.offsets.items())
            tasks[0].onward = tuple(OffsetRange(one, at, at, until.ids.get(one[0], "")) for one, at in ends)
            tasks[0].run_on_ms = 0 if self._target is not None else self._run_on_ms
        return tasks

    def _steps_behind(self, done: StreamOffset) -> dict[TopicPartition, int]:
        """Partitions of which more is done than Spark knows. Without running on, that is left by an earlier run."""
        sink = self._function.sink
        if not done.offsets or not self._function.can_run_on or sink is None:
            return {}
        if self._steps is None or self._run_on_ms:
            self._steps = sink.ran_on()
        steps = self._steps
        return {
            partition: offset
            for partition, offset in steps.last().items()
            if offset > done.offsets.get(partition, offset)
            and steps.ids.get(partition[0]) == done.ids.get(partition[0])
        }

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """With the topology's figures, which Spark shows in the progress of the query and gives to its listeners."""
        found = super().reportLatestOffset()
        now = time.monotonic()
        if found is not None and now >= self._figures_due:
            self._figures_due = now + FIGURES_S
            with contextlib.suppress(StreamsError, OSError):
                figures = read_figures(self._plan.checkpoint)
                self._figures = {} if figures is None else {FIGURES: figures.summary()}
        return None if found is None else found | self._figures

    def stop(self) -> None:
        if self._in_use is not None:
            self._in_use.release()
            self._in_use = None
        super().stop()

    def _begin(self) -> None:
        plan = self._plan
        if self._in_use is None and plan.stateful:
            self._in_use = InUse(plan.checkpoint, plan.state or "")

    def _look(self, done: StreamOffset) -> tuple[Partitions, dict[TopicPartition, int]]:
        """Where there is state, partitions are asked for after the ends: what lies before an end of a topic that has
        not grown by then was placed by the number of partitions that the state has."""
        if not self._plan.stateful or self._target is not None:
            found, latest = super()._look(done)
        else:
            ends = self._ends_of_known()
            found = self._topics.partitions_with(done.offsets.keys())
            found, latest = (found, ends) if found.partitions == ends.keys() else super()._look(done)
            self._known = found.partitions
        if self._plan.stateful:
            self._check_not_grown(found)
        return found, latest

    def _ends_of_known(self) -> dict[TopicPartition, int]:
        """Of the partitions that were there the last time; nothing if they can't be had."""
        try:
            return self._topics.latest(self._known)
        except ClientError:
            return {}

    def _check_not_grown(self, found: Partitions) -> None:
        counts = dict(self._plan.topic_partitions)
        for topic, number in found.partitions:
            counts[topic] = max(counts[topic], number + 1)
        check_not_grown(self._plan.topic_partitions, counts, self._plan.checkpoint_address)

    @property
    def _function(self) -> StageFunction:
        found: StageFunction = loaded(self._stage)
        return found

    @property
    def _plan(self) -> Plan:
        return self._function.plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        records = read_task(self._options, self._columns, partition)
        part = " ".join(f"{one.partition} {one.start} {one.end}" for one in partition.value or ())
        if not isinstance(partition, RangePartition) or not partition.onward:
            return self._function(records, part)
        onward = ReadingOn(self._options, self._columns, partition.onward)
        return self._function(records, part, onward, partition.run_on_ms)


def passed(start: dict[str, Any], ran_on: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """An offset with what was done behind it."""
    if not ran_on:
        return start
    offset = StreamOffset.parse(start)
    return StreamOffset({**offset.offsets, **ran_on}, offset.ids).to_json()


def packed(function: Any) -> str:
    from pyspark import cloudpickle

    return base64.b64encode(cloudpickle.dumps(function)).decode()  # type: ignore[no-untyped-call]


@functools.lru_cache(maxsize=8)
def loaded(text: str) -> Any:
    from pyspark import cloudpickle

    return cloudpickle.loads(base64.b64decode(text))
