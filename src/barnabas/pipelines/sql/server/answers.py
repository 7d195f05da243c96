"""What the REST API says about things: trees as ksqlDB's clients know them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS
from barnabas.pipelines.sql.compute.compiler import LAMBDA_FUNCTIONS
from barnabas.pipelines.sql.compute.functions.json import plain
from barnabas.pipelines.sql.compute.lambdas import SHAPES
from barnabas.pipelines.sql.compute.registry import all_functions
from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.metastore import KEY, DataSource, SourceColumn
from barnabas.pipelines.sql.server.counts import Counts
from barnabas.pipelines.sql.server.queries import Entry
from barnabas.pipelines.sql.types import SqlType

Tree = dict[str, Any]
encode = msgspec.json.Encoder(decimal_format="number").encode
SAID = {
    "TRANSFORM": "A collection with a function applied to each of its elements.",
    "FILTER": "The elements of a collection for which a function holds.",
    "REDUCE": "One value made of all elements of a collection.",
}


def row_json(row: tuple[Any, ...], kinds: list[SqlType] | tuple[SqlType, ...]) -> list[Any]:
    return [_json(plain(value, kind)) for value, kind in zip(row, kinds, strict=True)]


def _json(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, float) and value != value:
        return "NaN"
    return value if not isinstance(value, Decimal) or value.is_finite() else str(value)


def schema_text(names: tuple[str, ...], kinds: list[SqlType] | tuple[SqlType, ...], keys: tuple[int, ...] = ()) -> str:
    return ", ".join(
        f"`{name}` {kind}{' KEY' if at in keys else ''}"
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )


def type_tree(kind: SqlType) -> Tree:
    tree: Tree = {"type": kind.base, "fields": None, "memberSchema": None}
    if kind.base == "STRUCT":
        tree["fields"] = [{"name": name, "schema": type_tree(one)} for name, one in kind.fields]
    if kind.element is not None:
        tree["memberSchema"] = type_tree(kind.element)
    if kind.base == "DECIMAL":
        tree["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return tree


def field_tree(column: SourceColumn) -> Tree:
    tree: Tree = {"name": column.name, "schema": type_tree(column.kind)}
    if column.role == KEY:
        tree["type"] = "KEY"
    elif column.role == "HEADERS":
        tree["type"] = "HEADER"
        tree["headerKey"] = column.header
    return tree


def source_tree(source: DataSource) -> Tree:
    tree: Tree = {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name if source.keys else "KAFKA",
        "valueFormat": source.value_format.name,
    }
    return tree | {"isWindowed": source.window is not None}


def described_source(
    source: DataSource,
    readers: list[Tree],
    writers: list[Tree],
    partitions: int,
    replicas: int,
    counts: tuple[Counts, Counts] | None = None,
) -> Tree:
    """`counts` are those of the queries that read and that write it, for EXTENDED."""
    statistics = errors = ""
    if counts is not None:
        reading, writing = counts
        statistics = f"consumer-total-messages: {reading.read} total-messages: {writing.written}"
        errors = f"consumer-failed-messages: {reading.unreadable}"
    return {
        "name": source.name,
        "windowType": source.window.kind if source.window else None,
        "readQueries": readers,
        "writeQueries": writers,
        "fields": [field_tree(one) for one in source.columns],
        "type": source.kind,
        "timestamp": source.timestamp_column or "",
        "statistics": statistics,
        "errorStats": errors,
        "extended": counts is not None,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replicas,
        "statement": source.sql,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
    }


def query_tree(entry: Entry) -> Tree:
    query = entry.query
    state = {"CREATED": "RUNNING"}.get(entry.state, entry.state)
    return {
        "queryString": query.statement,
        "sinks": [query.sink],
        "sinkKafkaTopics": [query.topic],
        "id": query.id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def stores_tree(entry: Entry) -> Tree:
    """Where a query's table is kept: by the active server, or by one that stands by."""
    stores = [entry.query.sink]
    active, standing = ([], stores) if entry.state == "STANDBY" else (stores, [])
    return {"activeStores": active, "activePartitions": [], "standByStores": standing, "standByPartitions": []}


def query_description(entry: Entry) -> Tree:
    query = entry.query
    return {
        "id": query.id,
        "statementText": query.statement,
        "windowType": query.planned.window.kind if query.planned.window else None,
        "fields": [field_tree(one) for one in query.planned.columns],
        "sources": list(query.sources),
        "sinks": [query.sink],
        "topology": query.planned.topology.describe(),
        "executionPlan": execution_plan(query.planned.notes),
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT",
        "queryErrors": [{"errorMessage": entry.error}] if entry.error else [],
        "state": entry.state,
    }


def execution_plan(notes: tuple[str, ...]) -> str:
    return "\n".join(f"{chr(9) * depth} {one}" for depth, one in enumerate(notes))


def function_list() -> list[Tree]:
    found = [{"name": one.name, "type": "SCALAR", "category": one.category} for one in all_functions().values()]
    found += [{"name": name, "type": "SCALAR", "category": "LAMBDA"} for name in LAMBDA_FUNCTIONS]
    found += [{"name": name, "type": "AGGREGATE", "category": "AGGREGATE"} for name in AGGREGATES]
    found += [{"name": name, "type": "TABLE", "category": "TABLE"} for name in TABLE_FUNCTIONS]
    return sorted(found, key=lambda one: one["name"])


def described_function(name: str) -> Tree:
    kind, said, variants = "SCALAR", "", [f"{name}(...)"]
    if name in all_functions():
        entry = all_functions()[name]
        said, variants = entry.description, [f"{name}{one.signature}" for one in entry.variants]
    elif name in LAMBDA_FUNCTIONS:
        said, variants = SAID[name], [shape for (one, _), shape in SHAPES.items() if one == name]
    elif name in AGGREGATES:
        kind, said = "AGGREGATE", AGGREGATES[name].said
    elif name in TABLE_FUNCTIONS:
        kind, said = "TABLE", TABLE_FUNCTIONS[name].said
    else:
        known = [*all_functions(), *LAMBDA_FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS]
        raise SqlError(f"Can't find any functions with the name '{name}'.{nearest(name, known)}")
    return {
        "name": name,
        "description": said,
        "author": "Barnabas",
        "version": "",
        "path": "internal",
        "type": kind,
        "functions": [{"arguments": [], "returnType": "", "description": "", "signature": one} for one in variants],
    }
