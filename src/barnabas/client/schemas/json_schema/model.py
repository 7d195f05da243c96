"""JSON schemas as objects: what one JSON object says is split by the type of value that it speaks of.

`{"type": "string", "enum": [...]}` is all of a `StringSchema` and an `EnumSchema`. Two schemas are compared class by
class, so that is what decides whether a type has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from barnabas.client.schemas.json_text import Json

Number = int | Decimal
NO_DEFAULT: Json = object()


@dataclass(slots=True, eq=False)
class Schema:
    id: str | None = None
    title: str | None = None
    description: str | None = None
    default: Json = NO_DEFAULT  # the default null is one
    unknown: dict[str, Json] = field(default_factory=dict)  # keywords that nobody took


@dataclass(slots=True, eq=False)
class EmptySchema(Schema):
    """Everything is valid: `{}` and `true`."""


@dataclass(slots=True, eq=False)
class FalseSchema(Schema):
    """Nothing is valid."""


@dataclass(slots=True, eq=False)
class BooleanSchema(Schema):
    pass


@dataclass(slots=True, eq=False)
class NullSchema(Schema):
    pass


@dataclass(slots=True, eq=False)
class StringSchema(Schema):
    max_length: Number | None = None
    min_length: Number | None = None
    pattern: str | None = None


@dataclass(slots=True, eq=False)
class NumberSchema(Schema):
    maximum: Number | None = None
    minimum: Number | None = None
    exclusive_maximum: Number | None = None
    exclusive_minimum: Number | None = None
    multiple_of: Number | None = None
    integer: bool = False


@dataclass(slots=True, eq=False)
class ConstSchema(Schema):
    value: Json = None


@dataclass(slots=True, eq=False)
class EnumSchema(Schema):
    values: list[Json] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class NotSchema(Schema):
    inner: Schema = field(default_factory=EmptySchema)


@dataclass(slots=True, eq=False)
class ConditionalSchema(Schema):
    """if, then, else: only that it is one counts in comparisons."""


@dataclass(slots=True, eq=False)
class CombinedSchema(Schema):
    criterion: str = "allOf"
    parts: list[Schema] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of the parts, to tell equal ones


@dataclass(slots=True, eq=False)
class ReferenceSchema(Schema):
    reference: str = ""
    target: Schema | None = None


@dataclass(slots=True, eq=False)
class ObjectSchema(Schema):
    properties: dict[str, Schema] = field(default_factory=dict)
    pattern_properties: dict[str, Schema] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    additional: bool = True
    additional_schema: Schema | None = None
    unevaluated: Schema | None = None
    max_properties: Number | None = None
    min_properties: Number | None = None
    property_dependencies: dict[str, set[str]] = field(default_factory=dict)
    schema_dependencies: dict[str, Schema] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ArraySchema(Schema):
    all_items: Schema | None = None
    items: list[Schema] = field(default_factory=list)
    additional: bool = True
    additional_schema: Schema | None = None
    unevaluated: Schema | None = None
    max_items: Number | None = None
    min_items: Number | None = None
    unique: bool = False
    max_contains: Number | None = None
    min_contains: Number | None = None
