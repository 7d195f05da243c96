"""What `Topology.start` is given, checked before Spark is asked for anything: a mistake costs no start of a JVM."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping
from typing import Any

from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.graph import Graph

EARLIEST = "earliest"
SINK_ONLY = ("kafka.transaction.timeout.ms", "kafka.compression.type", "kafka.acks", "kafka.batch.size")


def source_settings(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key.lower() not in SINK_ONLY}


def check_start(
    graph: Graph,
    settings: Mapping[str, str],
    trigger: Mapping[str, Any] | None,
    starting_offsets: str | Mapping[str, Mapping[int, int]],
    max_batch_records: int | None,
) -> None:
    """`settings` are those of a reader too: of `kafka.*` and of Barnabas."""
    arguments.optional_count("start", max_batch_records, "max_batch_records")
    check_trigger(trigger)
    if not are_offsets(starting_offsets):
        wanted = f"they are {EARLIEST}, latest or {{topic: {{partition: offset}}}}"
        raise TopologyError(f"start() has starting_offsets {starting_offsets!r}: {wanted}")
    SinkOptions.parse(settings)
    SourceOptions.parse({**source_settings(settings), "subscribe": ",".join(graph.topics())})


def are_offsets(given: Any) -> bool:
    if isinstance(given, str) and given not in (EARLIEST, "latest"):
        try:
            given = json.loads(given)  # as Spark's own sources are told
        except ValueError:
            return False
        return isinstance(given, dict)
    return isinstance(given, (str, Mapping))


def check_trigger(trigger: Mapping[str, Any] | None) -> None:
    if trigger is None:
        return
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if not isinstance(trigger, Mapping):
        raise TopologyError(f'start() takes a trigger as {{"availableNow": True}}, not {trigger!r}')
    known = [name for name in inspect.signature(DataStreamWriter.trigger).parameters if name != "self"]
    for name in trigger:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"is {near[0]} meant?" if near else f"Spark has {', '.join(known)}"
            raise TopologyError(f"start() has a trigger {name!r}: {hint}")
