"""Topologies that Spark runs without Python: one stream, filters and maps by columns, one topic.

Spark parses the JSON, so the serde needs a schema. A record that can't be read stops the query with the words that an
operator in Python uses; with a topic for dead letters everything goes through Python.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.expressions import Expression
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.stateless import Filter, MapValues, SelectKey, Sink, Source
from barnabas.pipelines.streams.plan import Plan
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.streams import Fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT = "_unreadable"


def is_native(graph: Graph) -> bool:
    return bool(chain(graph))


def chain(graph: Graph) -> list[Node]:
    """The nodes from the source to the sink, if Spark can run them all."""
    nodes = graph.nodes
    if graph.global_tables or len(graph.sources()) != 1 or not nodes or not isinstance(nodes[-1].operator, Sink):
        return []
    for before, node in itertools.pairwise(nodes):
        if node.inputs != (before,):
            return []
    source, *middle, sink = nodes
    if not all(expressions(node.operator) for node in middle) or not _readable(source) or not middle:
        return []
    changed = [node for node in middle if isinstance(node.operator, (MapValues, SelectKey))]
    if any(serde.name not in ("auto", source.value_serde.name) for serde in (sink.value_serde,)):
        return []
    if len(changed) != len({type(node.operator) for node in changed}):
        return []  # a second change would need the type of the first
    if changed and nodes.index(changed[0]) < max(
        (nodes.index(node) for node in middle if isinstance(node.operator, Filter)), default=0
    ):
        return []
    return nodes if sink.key_serde.name in ("auto", source.key_serde.name) else []


def expressions(operator: Any) -> list[Expression]:
    """What an operator computes, if it is columns."""
    if not isinstance(operator, (Filter, MapValues, SelectKey)):
        return []
    function = operator.function
    if isinstance(function, Fields):
        return list(function.fields.values())
    owner = getattr(function, "__self__", None)
    return [owner] if isinstance(owner, Expression) else []


def _readable(source: Node) -> bool:
    value = source.value_serde
    return source.key_serde.name in ("string", "bytes") and (
        value.name in ("string", "bytes") or (value.name == "json" and value.schema is not None)
    )


def native(graph: Graph, plan: Plan, records: DataFrame) -> DataFrame | None:
    """The rows for the sink, or None where Python is needed."""
    from pyspark.sql import functions as f

    nodes = chain(graph)
    if not nodes or plan.dead_letter is not None:
        return None
    source, *middle, sink = nodes
    key, value = _read(source.key_serde, "key"), _read(source.value_serde, "value")
    frame, out_key, out_value = records, f.col("key"), f.col("value")
    if source.value_serde.name == "json":
        frame = records.withColumn("_parsed", _parsed(source)).where(_checked(source, plan))
        value = f.col("_parsed")
    for node in middle:
        operator = node.operator
        (first, *_) = found = [one.column(key, value) for one in expressions(operator)]
        if isinstance(operator, Filter):
            frame = frame.where(first if operator.wanted else ~first)
        elif isinstance(operator, SelectKey):
            out_key = first.cast("string").cast("binary")
        elif isinstance(operator, MapValues) and isinstance(operator.function, Fields):
            names = operator.function.fields
            fields = f.struct(*[one.alias(name) for name, one in zip(names, found, strict=True)])
            made = f.to_json(fields, {"ignoreNullFields": "false"}).cast("binary")
            out_value = f.when(f.col("value").isNotNull(), made)
        else:
            out_value = first.cast("string").cast("binary")
    named = f.lit(_topic(sink)).alias("topic"), out_key.alias("key"), out_value.alias("value")
    return frame.select(*named, f.col("timestamp"))


def _topic(sink: Node) -> str:
    assert isinstance(sink.operator, Sink)
    return sink.operator.topic


def _read(serde: Serde[Any], name: str) -> Column:
    from pyspark.sql import functions as f

    column = f.col(name)
    return column.cast("string") if serde.name == "string" else column


def _parsed(source: Node) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    assert isinstance(source.operator, Source)
    schema = StructType.fromDDL(source.value_serde.schema or "")
    assert isinstance(schema, StructType)
    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    # Spark would parse once for the filter and once for what is selected; what is not deterministic it computes once.
    once = f.when(f.rand(0) >= 0, f.col("value").cast("string"))
    return f.from_json(once, with_corrupt, options)


def _checked(source: Node, plan: Plan) -> Column:
    """Of a parsed value, or the end of the query."""
    from pyspark.sql import functions as f

    found = f.col("_parsed")
    topic = f.lit(plan.topics[0]) if len(plan.topics) == 1 else f.col("topic")
    place = f.concat(f.lit("offset "), f.col("offset"), f.lit(" of "), topic, f.lit("-"), f.col("partition"))
    reason = f": it is no JSON that fits {source.value_serde.schema}"
    told = f.concat(f.lit(f"{source.name} can't go on with the record at "), place, f.lit(reason))
    bad = f.col("value").isNotNull() & (found.isNull() | found.getField(CORRUPT).isNotNull())
    return f.when(bad, f.raise_error(told).cast("boolean")).otherwise(True)
