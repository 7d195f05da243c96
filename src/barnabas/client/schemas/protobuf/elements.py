"""A .proto file as objects, as it is written: names are not resolved yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SCALARS = frozenset(
    {"bool", "bytes", "double", "float", "fixed32", "fixed64", "int32", "int64"}
    | {"sfixed32", "sfixed64", "sint32", "sint64", "string", "uint32", "uint64"}
)
TAG_MAX = (1 << 29) - 1


@dataclass(frozen=True, slots=True)
class Word:
    """A value that is written without quotes: a number, true, false, or the name of a constant."""

    text: str


Value = "str | Word | Option | list[Value] | dict[str, Value]"


@dataclass(slots=True)
class Option:
    """`(name) = value`; the value of `(name).inner = value` is an option again."""

    name: str
    value: object
    parenthesized: bool = False


@dataclass(slots=True)
class Field:
    label: str | None  # optional, required, repeated
    type: str
    name: str
    tag: int
    options: list[Option] = field(default_factory=list)
    default: object = None  # str or Word
    json_name: str | None = None

    @property
    def map_types(self) -> tuple[str, str] | None:
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[4:-1].partition(",")
        return key.strip(), value.strip()


@dataclass(slots=True)
class Group:
    label: str | None
    name: str
    tag: int
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


Range = tuple[int, int]


@dataclass(slots=True)
class Reserved:
    """Names, tags and ranges of them."""

    values: list[str | int | Range]


@dataclass(slots=True)
class Extensions:
    values: list[int | Range]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Constant:
    name: str
    tag: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Enum:
    name: str
    constants: list[Constant] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)
    one_ofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)

    def member_names(self) -> Iterator[str]:
        for one_of in self.one_ofs:
            yield one_of.name
            yield from (each.name for each in one_of.fields)
            yield from (each.name for each in one_of.groups)
        yield from (each.name for each in self.fields)
        yield from (each.name for each in self.groups)
        yield from (each.name for each in self.types)

    @property
    def is_map_entry(self) -> bool:
        return any(each.name == "map_entry" and each.value == Word("true") for each in self.options)


@dataclass(slots=True)
class Rpc:
    name: str
    request: str
    response: str
    request_streams: bool = False
    response_streams: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class ProtoFile:
    syntax: str | None = None  # proto2, proto3
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"
