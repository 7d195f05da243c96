"""What a declaration means: the fields of a class with their kinds, read from annotations and specifications."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Annotated, Any, Union

from barnabas.wire.schema import NO_DEFAULT, FieldSpec, Struct, field, version_range
from barnabas.wire.uuids import ZERO_UUID, Uuid


class Kind(Enum):
    BOOL = auto()
    INT8 = auto()
    INT16 = auto()
    UINT16 = auto()
    INT32 = auto()
    UINT32 = auto()
    INT64 = auto()
    FLOAT64 = auto()
    STRING = auto()
    BYTES = auto()
    RECORDS = auto()
    UUID = auto()
    STRUCT = auto()


PLAIN_KINDS: dict[Any, Kind] = {bool: Kind.BOOL, str: Kind.STRING, bytes: Kind.BYTES, Uuid: Kind.UUID}
DEFAULTS: dict[Kind, Any] = {
    Kind.BOOL: False,
    Kind.FLOAT64: 0.0,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.RECORDS: b"",
    Kind.UUID: ZERO_UUID,
}


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    is_array: bool
    struct: type[Any] | None
    default: Any
    default_factory: Callable[[], Any] | None
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tag: int | None
    tagged: tuple[int, int]
    ignorable: bool
    flexible: tuple[int, int]

    def in_version(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and self.tagged[0] <= version <= self.tagged[1]

    def is_flexible(self, version: int) -> bool:
        return self.flexible[0] <= version <= self.flexible[1]

    def element(self) -> Field:
        """One element of this array: never null, never tagged."""
        return replace(self, is_array=False, nullable=version_range("none"), tag=None)


_cache: dict[type[Any], list[Field]] = {}


def fields_of(cls: type[Any]) -> list[Field]:
    if cls not in _cache:
        hints = typing.get_type_hints(cls, include_extras=True)
        _cache[cls] = [_field(cls, name, hints[name]) for name in inspect.get_annotations(cls)]
    return _cache[cls]


def _field(cls: type[Any], name: str, hint: Any) -> Field:
    declared = cls.__dict__.get(name, NO_DEFAULT)
    spec = declared if isinstance(declared, FieldSpec) else field(default=declared)
    hint, optional = _without_none(hint)
    is_array = typing.get_origin(hint) is list
    kind, struct = _kind(typing.get_args(hint)[0] if is_array else hint)
    default, factory = spec.default, spec.default_factory
    if default is NO_DEFAULT and factory is None:
        if is_array:
            factory = list
        elif struct is not None:
            factory = struct
        else:
            default = DEFAULTS.get(kind, 0)
    return Field(
        name=name,
        kind=kind,
        is_array=is_array,
        struct=struct,
        default=default,
        default_factory=factory,
        versions=version_range(spec.versions),
        nullable=version_range((spec.nullable or spec.versions) if optional else "none"),
        tag=spec.tag,
        tagged=version_range(spec.tagged or spec.versions),
        ignorable=spec.ignorable,
        flexible=version_range(spec.flexible or "0+"),
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (Union, types.UnionType):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return hint, False


def _kind(hint: Any) -> tuple[Kind, type[Any] | None]:
    if typing.get_origin(hint) is Annotated:
        return Kind[hint.__metadata__[0].upper()], None
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Kind.STRUCT, hint
    return PLAIN_KINDS[hint], None
