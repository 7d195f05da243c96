"""INSERT INTO ... VALUES: a row as the bytes of a record."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Any

from barnabas.pipelines.sql.compute.casts import cast_between
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import codec_of
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.relations import ROWTIME, Relation
from barnabas.pipelines.sql.types import BIGINT, SqlType, fits
from barnabas.pipelines.streams.serdes import SerdeError

EXACT_TEXT = ("TIMESTAMP", "DATE", "TIME")


def record_of(
    source: DataSource, statement: tree.InsertValues, *, now_ms: int, functions: Any = None
) -> tuple[bytes | None, bytes | None, int]:
    """Key, value and time."""
    check_target(source)
    names = list(statement.columns) or [one.name for one in source.columns]
    check_no_headers(source, names)
    if len(names) != len(statement.values):
        raise SqlError(
            f"Expected a value for each column. Expected Columns: [{', '.join(names)}]. "
            f"Got {len(statement.values)} values."
        )
    relation = Relation((), (), functions)
    values: dict[str, Any] = {}
    for name, expression in zip(names, statement.values, strict=True):
        kind = kind_of(source, name)
        values[name] = value_of(relation, name, expression, kind)
    return row_bytes(source, values, now_ms)


def check_target(source: DataSource) -> None:
    if source.read_only:
        raise SqlError(f"Cannot insert values into read-only {source.kind.lower()}: {source.name}")
    if source.window is not None:
        raise SqlError("Cannot insert values into windowed stream/table")


def check_no_headers(source: DataSource, names: Collection[str]) -> None:
    if into := [one.name for one in source.headers if one.name in names]:
        raise SqlError(f"Cannot insert into HEADER columns: {', '.join(into)}")


def kind_of(source: DataSource, name: str) -> SqlType:
    if name == ROWTIME:
        return BIGINT
    column = source.column(name)
    if column is None:
        from barnabas.pipelines.sql.errors import nearest

        hint = nearest(name, [one.name for one in source.columns])
        raise SqlError(f"Column name {name} does not exist in {source.name}.{hint}")
    return column.kind


def value_of(relation: Relation, name: str, expression: tree.Expression, kind: SqlType) -> Any:
    compiled, given = relation.compiled(expression)
    try:
        value = compiled.call(())
        return taken(value, given, kind)
    except (EvaluationError, binascii.Error) as error:
        raise SqlError(f"Failed to insert values into column {name}: {error}") from None
    except TypeError:
        raise SqlError(f"Expected type {kind} for field {name} but got {given}: {literal(value)}") from None


def taken(value: Any, given: SqlType, kind: SqlType) -> Any:
    """A value in a column of this type; TypeError if it does not fit. The fields of a STRUCT go by their names, and one
    that is not given is null."""
    if given == kind or value is None:
        return value
    if fits(given, kind) or (given.base == "STRING" and kind.base in EXACT_TEXT):
        return cast_between(given, kind)(value)
    if given.base in ("DECIMAL", "INTEGER", "BIGINT") and kind.base in ("DOUBLE", "DECIMAL"):
        return cast_between(given, kind)(value)
    if given.base == "STRING" and kind.base == "BYTES":
        return base64.b64decode(value, validate=True)
    if given.base == kind.base == "STRUCT" and {name for name, _ in given.fields} <= {name for name, _ in kind.fields}:
        kinds = dict(given.fields)
        return {name: taken(value[name], kinds[name], one) if name in kinds else None for name, one in kind.fields}
    if given.base == kind.base and given.key == kind.key and given.element is not None and kind.element is not None:
        if given.base == "ARRAY":
            return [taken(one, given.element, kind.element) for one in value]
        return {key: taken(one, given.element, kind.element) for key, one in value.items()}
    raise TypeError


def literal(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={literal(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def row_bytes(source: DataSource, values: dict[str, Any], now_ms: int) -> tuple[bytes | None, bytes | None, int]:
    key_codec = codec_of(source.key_format, source.keys, key=True, topic=source.topic)
    value_codec = codec_of(source.value_format, source.values, key=False, topic=source.topic)
    keys = [values.get(one.name) for one in source.keys]
    if source.table and (None in keys or not keys):
        missing = next((one.name for one, value in zip(source.keys, keys, strict=True) if value is None), "")
        raise SqlError(
            f"Failed to insert values into '{source.name}'. Value for primary key column {missing} is required for "
            "tables."
        )
    row = [values.get(one.name) for one in source.values]
    try:
        key = key_codec.encode(keys) if keys and any(one is not None for one in keys) else None
        value = value_codec.encode(row)
    except (SerdeError, ValueError) as error:
        raise SqlError(f"Failed to insert values into '{source.name}'. Could not serialize row: {error}") from None
    time = values.get(ROWTIME)
    if time is None and source.timestamp_column is not None:
        time = values.get(source.timestamp_column)
        if isinstance(time, str):
            from barnabas.pipelines.sql.operators import ReadSource

            time = ReadSource(time_format=source.timestamp_format).own_time(time)
    return key, value, now_ms if time is None else int(time)
