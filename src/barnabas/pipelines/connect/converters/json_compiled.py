"""Readers and writers of JSON that are made once for a schema, for the values that are as they should be.

Whatever is unusual (a value of another type, a number that Java writes in another way, a null for which a default
stands) goes the long way, which `JsonConverter` has for every value: there are the rules, here is the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from barnabas.pipelines.connect.data.schema import (
    BITS,
    DECIMAL,
    TEMPORAL,
    Schema,
    Struct,
    Type,
    decode_logical,
    encode_logical,
    validate,
)

Change = Callable[[Any], Any]
Long = Callable[[Schema, Any], Any]
AS_IS = {Type.STRING: str, Type.BOOLEAN: bool, **dict.fromkeys(BITS, int)}


class _Never:
    """The type of no value."""


def is_logical(schema: Schema) -> bool:
    return schema.name is not None and (schema.name in TEMPORAL or schema.name == DECIMAL)


def writer_of(schema: Schema, long_way: Long, *, defaults: bool) -> Change:
    """What makes the tree of a value."""
    change = _writer(schema, long_way, defaults)
    if schema.optional and (schema.default is None or not defaults):
        return lambda value: None if value is None else change(value)
    return change


def _writer(schema: Schema, long_way: Long, defaults: bool) -> Change:
    def rare(value: Any) -> Any:
        return long_way(schema, value)

    if is_logical(schema):
        if schema.name not in TEMPORAL:
            return rare
        return lambda value: encode_logical(schema, value) if type(value) is datetime else rare(value)
    if schema.type in AS_IS:
        kind = AS_IS[schema.type]
        return lambda value: value if type(value) is kind else rare(value)
    if schema.type is Type.FLOAT64:
        # Between these bounds Python writes a number as Java does.
        return lambda value: value if type(value) is float and (1e-3 <= abs(value) < 1e7 or value == 0) else rare(value)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        item = writer_of(schema.value_schema, long_way, defaults=defaults)
        return lambda value: [item(each) for each in value] if type(value) is list else rare(value)
    return _struct_writer(schema, rare, long_way, defaults) if schema.type is Type.STRUCT else rare


def _struct_writer(schema: Schema, rare: Change, long_way: Long, defaults: bool) -> Change:
    plan = [
        (
            each.name,
            _Never if is_logical(each.schema) else AS_IS.get(each.schema.type, _Never),
            writer_of(each.schema, long_way, defaults=defaults),
        )
        for each in schema.fields
    ]

    def write(value: Any) -> Any:
        if type(value) is not Struct or (value.schema is not schema and value.schema != schema):
            return rare(value)
        values = value.values
        tree = {}
        for name, as_is, change in plan:
            found = values.get(name)
            tree[name] = found if type(found) is as_is else change(found)
        return tree

    return write


def reader_of(schema: Schema, long_way: Long) -> Change:
    """What makes a value of its tree, in which numbers with a fraction are Decimals."""

    def rare(tree: Any) -> Any:
        value = long_way(schema, tree)
        validate(schema, value)
        return value

    if is_logical(schema):
        if schema.name not in TEMPORAL or schema.type not in BITS:
            return rare
        half = 1 << BITS[schema.type] - 1
        return lambda tree: decode_logical(schema, tree) if type(tree) is int and -half <= tree < half else rare(tree)
    if schema.type in BITS:
        bound = 1 << BITS[schema.type] - 1
        return lambda tree: tree if type(tree) is int and -bound <= tree < bound else rare(tree)
    if schema.type in AS_IS:
        kind = AS_IS[schema.type]
        return lambda tree: tree if type(tree) is kind else rare(tree)
    if schema.type is Type.FLOAT64:
        return lambda tree: float(tree) if type(tree) is Decimal else rare(tree)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        item = reader_of(schema.value_schema, long_way)
        return lambda tree: [item(each) for each in tree] if type(tree) is list else rare(tree)
    return _struct_reader(schema, rare, long_way) if schema.type is Type.STRUCT else rare


def _struct_reader(schema: Schema, rare: Change, long_way: Long) -> Change:
    plan = [(each.name, _field_reader(each.name, each.schema, long_way)) for each in schema.fields]

    def read(tree: Any) -> Any:
        if type(tree) is not dict:
            return rare(tree)
        return Struct.unchecked(schema, {name: change(tree.get(name)) for name, change in plan})

    return read


def _field_reader(name: str, schema: Schema, long_way: Long) -> Change:
    """Errors name the field."""
    change = reader_of(schema, long_way)
    if schema.optional and schema.default is None:
        return lambda tree: None if tree is None else change(tree)
    if schema.type is Type.STRING:

        def read(tree: Any) -> Any:
            if type(tree) is str:
                return tree
            value = long_way(schema, tree)
            validate(schema, value, name)
            return value

        return read
    return change
