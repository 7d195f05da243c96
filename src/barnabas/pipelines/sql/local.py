"""A topology in this process: batches of records in, rows out. Push queries run so, without a Spark query each."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barnabas.pipelines.streams.checks import check_co_partitioning
from barnabas.pipelines.streams.compiled import run_batch_here
from barnabas.pipelines.streams.plan import planned
from barnabas.pipelines.streams.topology import Topology

Given = tuple[str, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class LocalRun:
    """Records are (topic, partition, offset, timestamp in ms, key, value, headers)."""

    def __init__(self, topology: Topology, partitions: Mapping[str, int]) -> None:
        check_co_partitioning(topology.graph, partitions)
        self._directory = tempfile.TemporaryDirectory(prefix="barnabas-sql-")
        state = str(Path(self._directory.name) / "barnabas" / "state")
        self._plan = planned(topology.graph, partitions, {}, state=state, dead_letter=None)
        self._batch = 0
        self._run = uuid.uuid4().hex

    def process(self, records: list[Given]) -> list[dict[str, Any]]:
        found = run_batch_here(self._plan, records, self._batch, self._run, 0)
        self._batch += 1
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def close(self) -> None:
        self._directory.cleanup()
