"""Avro schemas as objects. A named type is one object wherever it is used, so identity tells recursion."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.client.schemas.json_text import Json

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MISSING: Json = object()  # no default, which is not the same as the default null

Properties = dict[str, Json]


@dataclass(slots=True, eq=False)
class AvroType:
    """`kind` is Avro's name of the type: record, enum, int ..."""

    kind: str
    properties: Properties = field(default_factory=dict)

    @property
    def shown(self) -> str:
        return self.kind.upper()


@dataclass(slots=True, eq=False)
class Named(AvroType):
    name: str = ""
    namespace: str = ""
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)  # full names

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: AvroType
    doc: str | None = None
    default: Json = MISSING
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Record(Named):
    fields: list[Field] = field(default_factory=list)
    is_error: bool = False
    complete: bool = False  # its fields are known


@dataclass(slots=True, eq=False)
class Enum(Named):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None


@dataclass(slots=True, eq=False)
class Fixed(Named):
    size: int = 0


@dataclass(slots=True, eq=False)
class Array(AvroType):
    items: AvroType = field(default_factory=lambda: AvroType("null"))


@dataclass(slots=True, eq=False)
class Map(AvroType):
    values: AvroType = field(default_factory=lambda: AvroType("null"))


@dataclass(slots=True, eq=False)
class Union(AvroType):
    branches: list[AvroType] = field(default_factory=list)
