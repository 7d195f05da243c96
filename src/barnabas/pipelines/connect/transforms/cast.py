"""Cast: fields or the whole key or value to another type, with Java's narrowing."""

from __future__ import annotations

import base64
import math
import re
from datetime import datetime
from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting
from barnabas.pipelines.connect.data.header_values import write_time
from barnabas.pipelines.connect.data.java_text import java_float, java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import (
    BITS,
    DECIMAL,
    Schema,
    Struct,
    Type,
    encode_logical,
    java_class,
    single,
    struct,
    type_of,
)
from barnabas.pipelines.connect.errors import ConfigError, DataError
from barnabas.pipelines.connect.transforms.transformation import (
    REPLACE_NULL,
    Transformation,
    basics,
    require_fields,
    require_map,
    require_struct,
)

OUTPUTS = [*BITS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING]
INPUTS = [*OUTPUTS, Type.BYTES]
FLOATING = re.compile(r"\s*[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)\s*")


def check_spec(_: str, value: list[str]) -> None:
    parse_spec(value)


class Cast(Transformation):
    doc = (
        "Cast fields or the entire key or value to a specific type, e.g. to force an integer field to a smaller width."
    )
    sided = True
    definition = Definition(
        [
            Setting(
                "spec",
                "LIST",
                doc="List of fields and the type to cast them to of the form field1:type,field2:type to cast fields of "
                "Maps or Structs. A single type to cast the entire value.",
                check=check_spec,
            ),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        self._casts = parse_spec(self.values["spec"])
        self._whole = self._casts.get(None)

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if value is None:
            return record
        if schema is None:
            if self._whole is not None:
                return self.changed(record, None, cast(None, value, self._whole))
            given = require_map(value, "cast types")
            done = {name: cast(None, given.get(name or ""), kind) for name, kind in self._casts.items()}
            return self.changed(record, None, given | done)
        updated = self.updated_schema(schema)
        if self._whole is not None:
            return self.changed(record, updated, cast(schema, value, self._whole))
        given_struct = require_struct(value, "cast types")
        made = Struct(updated)
        for each in given_struct.schema.fields:
            found = self.read(given_struct, each.name)
            kind = self._casts.get(each.name)
            made.put(each.name, found if kind is None else cast(each.schema, found, kind))
        return self.changed(record, updated, made)

    def make_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            made = Schema(type=self._whole, **basics(schema))
        else:
            require_fields(schema)
            fields = []
            for each in schema.fields:
                kind = self._casts.get(each.name)
                default = None if kind is None else cast(each.schema, each.schema.default, kind)
                new = Schema(type=kind, optional=each.schema.optional, default=default) if kind else each.schema
                fields.append((each.name, new))
            made = struct(fields, **basics(schema))
        if schema.default is not None:
            made = made.but(default=cast(schema, schema.default, made.type))
        return made.but(optional=schema.optional)


def parse_spec(spec: list[str]) -> dict[str | None, Type]:
    if not spec:
        raise ConfigError("Must specify at least one field to cast.")
    found: dict[str | None, Type] = {}
    for mapping in spec:
        parts = mapping.split(":")
        if len(parts) > 2:
            raise ConfigError(f"Invalid rename mapping: {mapping}", "renames", spec)
        name = parts[-1].strip()
        if name.upper() not in Type.__members__:
            raise ConfigError(f"Invalid type found in casting spec: {name}")
        kind = Type[name.upper()]
        if kind not in OUTPUTS:
            listed = ", ".join(OUTPUTS)
            raise ConfigError(f"Cast transformation does not support casting to {kind}; supported types are [{listed}]")
        found[None if len(parts) == 1 else parts[0].strip()] = kind
    if None in found and len(spec) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return found


def cast(schema: Schema | None, value: Any, target: Type) -> Any:
    if value is None:
        return None
    kind = type_of(value) if schema is None else schema.type
    if kind is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not supported by "
            "Connect's data API"
        )
    if kind not in INPUTS:
        listed = ", ".join(INPUTS)
        raise DataError(f"Cast transformation does not support casting from {kind}; supported types are [{listed}]")
    if schema is not None and schema.name is not None and target is not Type.STRING and schema.name != DECIMAL:
        value = encode_logical(schema, value)
    if target is Type.STRING:
        return _string(schema, value)
    if isinstance(value, bool):
        return value if target is Type.BOOLEAN else _number(int(value), target)
    if isinstance(value, str):
        return _parsed(value, target)
    if isinstance(value, bytes | datetime | list | dict | Struct):
        raise DataError(f"Unexpected type in Cast transformation: class {java_class(value)}")
    return _number(value, target)


def _number(value: Any, target: Type) -> Any:
    if target is Type.BOOLEAN:
        return _integral(value, 64) != 0
    if target is Type.FLOAT64:
        return float(value)
    if target is Type.FLOAT32:
        return single(float(value))
    return _integral(value, BITS[target])


def _integral(value: Any, bits: int) -> int:
    """An integer keeps its low bits. A float is cut off at the bounds of int or long first."""
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        width = 64 if bits == 64 else 32
        least, greatest = -(1 << width - 1), (1 << width - 1) - 1
        value = greatest if value >= greatest else least if value <= least else int(value)
    return ((int(value) + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)


def _parsed(text: str, target: Type) -> Any:
    if target is Type.BOOLEAN:
        return text.lower() == "true"
    if target in BITS:
        bound = 1 << BITS[target] - 1
        if re.fullmatch(r"[+-]?\d+", text) and -bound <= int(text) < bound:
            return int(text)
    elif FLOATING.fullmatch(text):
        number = float(text.strip().rstrip("fFdD") if "n" not in text else text)
        return single(number) if target is Type.FLOAT32 else number
    raise DataError(f"Value ({text}) was out of range for requested data type")


def _string(schema: Schema | None, value: Any) -> str:
    if isinstance(value, datetime):
        return write_time(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and schema is not None and schema.type is Type.FLOAT32:
        return java_float(value, single=True)
    return java_text(value)
