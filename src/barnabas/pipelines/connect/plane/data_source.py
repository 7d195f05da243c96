"""`format("barnabas-connect")`: a batch of the query is one turn of every task that is due.

The plane's driver writes what is due to a file, numbered. The reader, which Spark runs in a process of its own, gives
that number as the offset, and the turns as the input partitions. A row is the outcome of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

NAME = "barnabas-connect"
PLAN = "plan"


class ConnectSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "outcome string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TurnReader(self.options[PLAN])


class TurnReader(DataSourceStreamReader):
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def initialOffset(self) -> dict[str, Any]:
        return {"turn": 0}

    def latestOffset(self, *_: Any) -> dict[str, Any]:
        return {"turn": read_plan(self._path)["turn"]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        plan = read_plan(self._path)
        if start == end or plan["turn"] != end["turn"]:
            return []
        return [InputPartition(text) for text in plan["turns"]]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        from barnabas.pipelines.connect.plane.orders import Turn
        from barnabas.pipelines.connect.plane.turns import run_turn

        refuse_repetition()
        yield (run_turn(Turn.parse(partition.value)).encode(),)


def refuse_repetition() -> None:
    """A turn whose outcome was lost may have committed: it is planned anew from the offsets, under another epoch."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise RuntimeError(
            "Spark repeats a turn whose task was lost: the query ends, and starts again from the offsets"
        )


def read_plan(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def write_plan(path: Path, turn: int, turns: list[str]) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"turn": turn, "turns": turns}))
    beside.chmod(0o600)  # settings may hold secrets
    beside.replace(path)
