"""Readers and writers of JSON that are made once for a schema, for the values that are as they should be.

Whatever is unusual (a value of another type, a number that Java writes in another way, a null for which a default
stands) goes the long way, which `JsonConverter` has for every value: there are the rules, here is the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring as quote
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
Text = Callable[..., str]
AS_IS = {Type.STRING: str, Type.BOOLEAN: bool, **dict.fromkeys(BITS, int)}


def is_logical(schema: Schema) -> bool:
    return schema.name is not None and (schema.name in TEMPORAL or schema.name == DECIMAL)


def writer_of(schema: Schema, long_way: Text, *, defaults: bool) -> Text:
    """What makes the JSON of a value: `long_way` does it for values that are not as usual."""
    write = _writer(schema, long_way, defaults)
    if schema.optional and (schema.default is None or not defaults):
        return lambda value: "null" if value is None else write(value)
    return write


def _writer(schema: Schema, long_way: Text, defaults: bool) -> Text:
    def rare(value: Any) -> str:
        return long_way(schema, value)

    if is_logical(schema):
        if schema.name not in TEMPORAL:
            return rare
        return lambda value: str(encode_logical(schema, value)) if type(value) is datetime else rare(value)
    if schema.type in BITS:
        return lambda value: str(value) if type(value) is int else rare(value)
    if schema.type is Type.STRING:
        return lambda value: quote(value) if type(value) is str else rare(value)
    if schema.type is Type.FLOAT64:
        # Between these bounds Python writes a number as Java does.
        return lambda value: (
            repr(value) if type(value) is float and (1e-3 <= abs(value) < 1e7 or value == 0) else rare(value)
        )
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        item = writer_of(schema.value_schema, long_way, defaults=defaults)
        return lambda value: f"[{','.join(map(item, value))}]" if type(value) is list else rare(value)
    return _struct_writer(schema, rare, long_way, defaults) if schema.type is Type.STRUCT else rare


def _struct_writer(schema: Schema, rare: Text, long_way: Text, defaults: bool) -> Text:
    """One expression for all fields, as Python's own compiler makes it: integers and texts are written in place."""
    if not schema.fields:
        return rare
    names: dict[str, Any] = {"Struct": Struct, "schema": schema, "rare": rare, "quote": quote}
    read, written = [], []
    for number, each in enumerate(schema.fields):
        value, write, head = f"v{number}", f"w{number}", f"h{number}"
        names[f"n{number}"], names[head] = each.name, ("," if number else "{") + quote(each.name) + ":"
        names[write] = writer_of(each.schema, long_way, defaults=defaults)
        read.append(f"{value} = get(n{number})")
        text = f"{write}({value})"
        if not is_logical(each.schema) and each.schema.type in BITS:
            text = f"{value} if type({value}) is int else {text}"
        elif not is_logical(each.schema) and each.schema.type is Type.STRING:
            text = f"quote({value}) if type({value}) is str else {text}"
        written.append(f"{{{head}}}{{{text}}}")
    lines = [
        "def write(value):",
        "    if type(value) is not Struct or (value.schema is not schema and value.schema != schema):",
        "        return rare(value)",
        "    get = value.values.get",
        *(f"    {line}" for line in read),
        f"    return f'{''.join(written)}}}}}'",
    ]
    exec("\n".join(lines), names)
    made: Text = names["write"]
    return made


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
