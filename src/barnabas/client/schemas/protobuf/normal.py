"""The normal form of a .proto file: names in full, fields by tag, imports and options in order, maps as maps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.protobuf.elements import (
    SCALARS,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
    Word,
)
from barnabas.client.schemas.protobuf.names import Types

LAST = (1 << 31) - 1
WHOLE = re.compile(r"-?[0-9]+\.0+")


class Normalizer:
    def __init__(self, file: ProtoFile, types: Types) -> None:
        self._file = file
        self._types = types
        self._package = file.package or ""

    def file(self) -> ProtoFile:
        file = self._file
        return replace(
            file,
            syntax=file.syntax if file.is_proto3 else None,
            imports=sorted(set(file.imports)),
            public_imports=sorted(set(file.public_imports)),
            types=self._all(file.types, ()),
            services=[self._service(each) for each in file.services],
            extends=self._extends(file.extends, ()),
            options=self._options(file.options, ()),
        )

    def _all(self, types: Sequence[Message | Enum], scope: tuple[str, ...]) -> list[Message | Enum]:
        return [
            self._message(each, (*scope, each.name)) if isinstance(each, Message) else self._enum(each, scope)
            for each in types
            if not (isinstance(each, Message) and each.is_map_entry)
        ]

    def _message(self, message: Message, scope: tuple[str, ...]) -> Message:
        one_ofs = [
            replace(each, fields=self._fields(each.fields, scope), options=self._options(each.options, scope))
            for each in message.one_ofs
            if each.fields or each.groups
        ]
        extensions = [
            Extensions([_single(value) if isinstance(value, tuple) else value], self._options(each.options, scope))
            for each in message.extensions
            for value in each.values
        ]
        return Message(
            message.name,
            fields=self._fields(message.fields, scope),
            one_ofs=sorted(one_ofs, key=_first_tag),
            groups=sorted((self._group(each, scope) for each in message.groups), key=lambda each: each.tag),
            types=self._all(message.types, scope),
            options=self._options(message.options, scope),
            reserved=_reserved(message.reserved),
            extensions=sorted(extensions, key=lambda each: _start(each.values[0])),
            extends=self._extends(message.extends, scope),
        )

    def _enum(self, enum: Enum, scope: tuple[str, ...]) -> Enum:
        constants = sorted(enum.constants, key=lambda each: (each.tag, each.name))
        return Enum(
            enum.name,
            constants=[replace(each, options=self._options(each.options, scope)) for each in constants],
            options=self._options(enum.options, scope),
            reserved=_reserved(enum.reserved),
        )

    def _fields(self, fields: Sequence[Field], scope: tuple[str, ...]) -> list[Field]:
        return sorted((self._field(each, scope) for each in fields), key=lambda each: each.tag)

    def _field(self, field: Field, scope: tuple[str, ...]) -> Field:
        label, kind = field.label, field.type
        if kind not in SCALARS and not kind.startswith("map<"):
            full_name = self._resolved(kind, scope)
            kind = self._types.by_name[full_name[1:]].map_type or full_name
        if kind.startswith("map<"):
            key, value = (each.strip() for each in kind[4:-1].split(",", 1))
            found = None if value in SCALARS else self._types.find(value, self._package, scope)
            if value not in SCALARS and found is None:
                raise InvalidSchema(f"Could not resolve type: {value}")
            kind, label = f"map<{key}, {value if found is None else '.' + found}>", None
        return replace(field, label=label, type=kind, options=self._options(field.options, scope))

    def _group(self, group: Group, scope: tuple[str, ...]) -> Group:
        return replace(group, fields=self._fields(group.fields, scope))

    def _extends(self, extends: Sequence[Extend], scope: tuple[str, ...]) -> list[Extend]:
        by_name: dict[str, list[Field]] = {}
        for each in extends:
            by_name.setdefault(self._resolved(each.name, scope), []).extend(self._fields(each.fields, scope))
        return [Extend(name, sorted(fields, key=lambda each: each.tag)) for name, fields in by_name.items()]

    def _service(self, service: Service) -> Service:
        rpcs = [self._rpc(each) for each in service.rpcs]
        return replace(service, rpcs=rpcs, options=self._options(service.options, ()))

    def _rpc(self, rpc: Rpc) -> Rpc:
        request, response = self._resolved(rpc.request, ()), self._resolved(rpc.response, ())
        return replace(rpc, request=request, response=response, options=self._options(rpc.options, ()))

    def _options(self, options: Sequence[Option], scope: tuple[str, ...]) -> list[Option]:
        """Values of one custom option that are given in parts are one value, however they were written."""
        plain: list[Option] = []
        named: list[Option] = []
        latest: dict[str, Option] = {}
        for each in options:
            full_name = self._types.find_extension(each.name, self._package, scope) if each.parenthesized else None
            if full_name is None:
                plain.append(each)
                continue
            value, known = _tree(each.value), latest.get(full_name)
            repeated = self._types.extensions[full_name].label == "repeated"
            if known is not None and isinstance(known.value, dict) and isinstance(value, dict) and not repeated:
                known.value = _merged(known.value, value)
                continue
            latest[full_name] = replace(each, name=full_name, value=value)
            named.append(latest[full_name])
        for each in named:
            each.value = self._plain(each.value, scope)
        return sorted([*plain, *named], key=lambda each: each.name)

    def _plain(self, value: object, scope: tuple[str, ...]) -> object:
        """Fields in the order of their names, one value without a list around it, whole numbers without a fraction."""
        if isinstance(value, dict):
            named = {self._key(name, scope): each for name, each in value.items() if each != []}
            return {name: self._plain(named[name], scope) for name in sorted(named)}
        if isinstance(value, list):
            plain = [self._plain(each, scope) for each in value]
            return plain[0] if len(plain) == 1 else plain
        if isinstance(value, Word) and WHOLE.fullmatch(value.text):
            return Word(value.text.partition(".")[0])
        return value

    def _key(self, name: str, scope: tuple[str, ...]) -> str:
        full_name = self._types.find_extension(name[1:-1], self._package, scope) if name.startswith("[") else None
        return name if full_name is None else f"[{full_name}]"

    def _resolved(self, name: str, scope: tuple[str, ...]) -> str:
        found = self._types.find(name, self._package, scope)
        if found is None:
            raise InvalidSchema(f"Could not resolve type: {name}")
        return f".{found}"


def _tree(value: object) -> object:
    """`(option).inner = value` as `{inner: value}`."""
    return {value.name: _tree(value.value)} if isinstance(value, Option) else value


def _merged(known: dict[str, object], more: dict[str, object]) -> dict[str, object]:
    merged = dict(known)
    for name, value in more.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[name] = _merged(old, value)
        elif name in merged:
            merged[name] = [
                *(old if isinstance(old, list) else [old]),
                *(value if isinstance(value, list) else [value]),
            ]
        else:
            merged[name] = value
    return merged


def _first_tag(one_of: OneOf) -> int:
    return one_of.fields[0].tag if one_of.fields else LAST


def _start(value: str | int | tuple[int, int]) -> int:
    if isinstance(value, str):
        return LAST
    return value if isinstance(value, int) else value[0]


def _single(span: Range) -> int | Range:
    return span[0] if span[0] == span[1] else span


def _reserved(reserved: Sequence[Reserved]) -> list[Reserved]:
    values = [_single(value) if isinstance(value, tuple) else value for each in reserved for value in each.values]
    return [Reserved([value]) for value in sorted(values, key=lambda each: (_start(each), str(each)))]
