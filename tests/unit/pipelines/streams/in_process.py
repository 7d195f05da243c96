"""A driver that runs the stages of a topology here, without Spark: the same functions over the same Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barnabas.pipelines.streams.compiled import record_table
from barnabas.pipelines.streams.stage import StageFunction, sink_schema
from barnabas.streams import Topology, TopologyTestDriver


class InProcess(TopologyTestDriver):
    def __init__(self, topology: Topology, *, partitions: Any = 1) -> None:
        super().__init__(topology, None, partitions=partitions)  # type: ignore[arg-type]

    def _ran(self, plan: Any, rows: list[tuple[Any, ...]]) -> Any:
        batches = record_table(rows).to_batches(max_chunksize=7)
        for stage in plan.stages:
            batches = list(StageFunction(plan, stage.number, self._batch, self._run)(batches))
        return pa.Table.from_batches(batches, schema=sink_schema(plan))
