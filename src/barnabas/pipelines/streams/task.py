"""One partition of one stage in one batch: operators run in their order, and what leaves is collected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.pipelines.spark.sink.murmur2 import partitions_of
from barnabas.pipelines.streams.errors import RecordError
from barnabas.pipelines.streams.origins import Origins
from barnabas.pipelines.streams.plan import Plan, Send, SinkStep, StagePlan
from barnabas.pipelines.streams.rows import Numbers, Raw, Rows, nothing, reordered
from barnabas.pipelines.streams.serdes import Serde, SerdeError, write_json
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.pipelines.streams.windows import Windowed

ERROR_HEADERS = "__barnabas.errors."
Letter = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]


class GlobalView:
    """A global table, which lies in as many stores as its topic has partitions."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._tables = [store.data for store in stores]
        self.data = self

    def get(self, key: Any, default: Any = None) -> Any:
        for table in self._tables:
            if key in table:
                return table[key]
        return default


class PartitionTask:
    """`outputs` are (sink, rows) to be written, `sent` what later stages get: (send, partition, rows)."""

    def __init__(
        self, plan: Plan, stage: StagePlan, origins: Origins, state: PartitionState | None, tables: dict[str, Any]
    ) -> None:
        self._plan, self._stage, self._origins = plan, stage, origins
        self._state = state
        self._tables = tables
        self._doing = stage.sources[0].name if stage.sources else ""
        self.letters: list[Letter] = []
        self.outputs: list[tuple[SinkStep, pa.Array, pa.Array, Rows, Numbers | None]] = []
        self.sent: list[tuple[Send, Numbers, Rows]] = []

    def store(self, name: str) -> Store:
        assert self._state is not None
        return self._state.store(name)

    def global_store(self, name: str) -> Any:
        return self._tables[name]

    def fail(self, rank: int, error: Exception) -> None:
        place = self._origins.place(rank, self._plan.topics)
        reason = str(error) if isinstance(error, SerdeError) else f"{type(error).__name__}: {error}"
        sentence = f"{self._doing} can't go on with the record at {place}: {reason}"
        if self._plan.dead_letter is None:
            raise RecordError(sentence) from error
        own = None if self._origins.headers is None else self._origins.headers[rank].as_py()
        headers = [
            *((one["key"], one["value"]) for one in own or ()),
            (ERROR_HEADERS + "message", sentence.encode()),
            (ERROR_HEADERS + "operator", self._doing.encode()),
            (ERROR_HEADERS + "topic", place.topic.encode()),
            (ERROR_HEADERS + "partition", str(place.partition).encode()),
            (ERROR_HEADERS + "offset", str(place.offset).encode()),
        ]
        keys, values = self._origins.keys, self._origins.values
        if keys is not None and values is not None:
            self.letters.append((keys[rank].as_py(), values[rank].as_py(), headers))
        else:  # behind a repartition the record is not at hand
            self.letters.append((None, write_json(place._asdict()), headers))

    def run(self, arrived: dict[int, Rows]) -> None:
        found: dict[int, Any] = arrived
        for step in self._stage.steps:
            with self.doing(step.name):
                found[step.number] = step.operator.run(self, [found.get(one) or nothing() for one in step.inputs])
        for send in self._stage.sends:
            with self.doing(send.name):
                self.send(send, found.get(send.origin) or nothing())
        for sink in self._stage.sinks:
            with self.doing(sink.name):
                self.write(sink, found.get(sink.input) or nothing())

    @contextlib.contextmanager
    def doing(self, name: str) -> Iterator[None]:
        self._doing = name
        yield

    def source_rows(
        self, name: str, keys: pa.Array, values: pa.Array, times: Numbers, ranks: Numbers, serdes: tuple[Any, Any]
    ) -> Rows:
        def failed(rank: int, error: Exception) -> None:
            before, self._doing = self._doing, name
            self.fail(rank, error)
            self._doing = before

        raw_keys, raw_values = Raw(keys, serdes[0], failed), Raw(values, serdes[1], failed)
        return Rows(None, None, times, ranks, raw_keys=raw_keys, raw_values=raw_values)

    def send(self, send: Send, rows: Rows) -> None:
        if not len(rows):
            return
        count = self._plan.partitions
        rows, keys = self.encoded(rows, send.key_serde, keys=True)
        targets = partitions_of(keys, count)
        if keys.null_count:
            missing = np.asarray(keys.is_null(), bool)
            targets[missing] = rows.ranks[missing] % count
        self.sent.append((send, targets, rows))

    def write(self, sink: SinkStep, rows: Rows) -> None:
        if not len(rows):
            return
        order = np.argsort(rows.ranks, kind="stable")
        if len(order) > 1 and not (order[:-1] < order[1:]).all():
            rows = reordered(rows, order)
        rows, values = self.encoded(rows, sink.value_serde, keys=False)
        rows, keys = self.encoded(rows, sink.key_serde, keys=True)
        if len(keys) < len(values):  # a key that could not be written took its value along
            rows, values = self.encoded(rows, sink.value_serde, keys=False)
        self.outputs.append((sink, keys, values, rows, self.placed(sink, rows)))

    def placed(self, sink: SinkStep, rows: Rows) -> Numbers | None:
        """Windows of a key lie together, in the partition of the key."""
        if sink.partitions is None or not any(isinstance(key, Windowed) for key in rows.keys):
            return None
        inner = sink.key_serde
        width = 16 if inner.name.startswith("session windowed") else 8
        keys = [inner.encode(key)[:-width] if isinstance(key, Windowed) else inner.to_bytes(key) for key in rows.keys]
        return partitions_of(pa.array(keys, pa.binary()), sink.partitions)

    def encoded(self, rows: Rows, serde: Serde[Any], *, keys: bool) -> tuple[Rows, pa.Array]:
        """The column's bytes, as they came where nobody has looked at them or changed them."""
        raw = rows.raw_keys if keys else rows.raw_values
        if raw is not None and (raw.serde is serde or (raw.serde.name, raw.serde.schema) == (serde.name, serde.schema)):
            return rows, raw.bytes
        objects = rows.keys if keys else rows.values
        if serde.encode_all is not None:
            with contextlib.suppress(Exception):  # one by one it is told which
                return rows, serde.encode_all(objects)
        encode = serde.encode
        found: list[bytes | None] = []
        failed: list[int] = []
        for position, one in enumerate(objects):
            try:
                found.append(None if one is None else encode(one))
            except Exception as error:
                self.fail(int(rows.ranks[position]), error)
                failed.append(position)
        return rows.without(failed), pa.array(found, pa.binary())
