"""What has changed from one .proto file to another, by Confluent's rules: fields are known by their tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from barnabas.client.schemas.hash_order import in_hash_order
from barnabas.client.schemas.protobuf.elements import (
    SCALARS,
    Enum,
    Field,
    Message,
    OneOf,
    ProtoFile,
)
from barnabas.client.schemas.protobuf.names import TypeInfo, Types

COMPATIBLE = frozenset(
    {"MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED", "ENUM_CONST_ADDED", "ENUM_CONST_CHANGED"}
    | {"ENUM_CONST_REMOVED", "FIELD_ADDED", "FIELD_REMOVED", "FIELD_NAME_CHANGED", "ONEOF_ADDED", "ONEOF_REMOVED"}
    | {"FIELD_STRING_OR_BYTES_LABEL_CHANGED", "ONEOF_FIELD_ADDED"}
)
DESCRIPTIONS = {
    "PACKAGE_CHANGED": (
        "The package at '{path}' in the {reader} schema does not match the package in the {writer} schema"
    ),
    "MESSAGE_REMOVED": ("The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema"),
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {reader} schema does not match the {writer} schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match its kind in the "
        "{writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match its type in the "
        "{writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{path}' in the {reader} schema does not match its label in "
        "the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field  at path '{path}' in the {reader} schema is missing in the {writer} schema"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The {reader} schema is missing a required field at path: '{path}' in the {writer} schema"
    ),
    "ONEOF_FIELD_REMOVED": ("The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema"),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{path}' in the {reader} schema are outside a oneof in the "
        "{writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{path}' in the {reader} schema is outside an existing oneof in the "
        "{writer} schema"
    ),
}
SCALAR_KINDS = (
    dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number")
    | dict.fromkeys(("sint32", "sint64"), "signed")
    | dict.fromkeys(("string", "bytes"), "text")
    | dict.fromkeys(("fixed32", "sfixed32"), "fixed32")
    | dict.fromkeys(("fixed64", "sfixed64"), "fixed64")
    | {"float": "float", "double": "double"}
)


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    path: str

    @property
    def compatible(self) -> bool:
        return self.kind in COMPATIBLE

    def show(self, reader: str, writer: str) -> str:
        description = DESCRIPTIONS.get(self.kind, "").format(path=self.path, reader=reader, writer=writer)
        return f'{{errorType:"{self.kind}", description:"{description}"}}'


def differences(old: ProtoFile, old_types: Types, new: ProtoFile, new_types: Types) -> list[Difference]:
    comparison = Comparison(Side(old_types, old.package or ""), Side(new_types, new.package or ""))
    if (old.package or "") != (new.package or ""):
        comparison.add("PACKAGE_CHANGED")
    comparison.compare_types(old.types, new.types)
    return comparison.found


@dataclass(slots=True)
class Side:
    types: Types
    package: str

    def find(self, name: str, scope: Sequence[str]) -> tuple[str, TypeInfo] | None:
        full_name = self.types.find(name, self.package, scope)
        return None if full_name is None else (full_name, self.types.by_name[full_name])


class Comparison:
    def __init__(self, old: Side, new: Side, path: Sequence[str] = (), entered: frozenset[int] = frozenset()) -> None:
        self.found: list[Difference] = []
        self._old, self._new = old, new
        self._path = list(path)
        self._scope = list(path)
        self._entered = set(entered)

    def add(self, kind: str) -> None:
        self.found.append(Difference(kind, "#/" + "/".join(self._path)))

    def compare_types(self, old: Sequence[Message | Enum], new: Sequence[Message | Enum]) -> None:
        before = {each.name: each for each in old if isinstance(each, Message)}
        after = {each.name: each for each in new if isinstance(each, Message)}
        for name in in_hash_order(before, after):
            with self._named(name):
                if name not in after:
                    if not before[name].is_map_entry:
                        self.add("MESSAGE_REMOVED")
                elif name not in before:
                    if not after[name].is_map_entry:
                        self.add("MESSAGE_ADDED")
                else:
                    self.compare_messages(before[name], after[name])
                    if list(before).index(name) != list(after).index(name):
                        self.add("MESSAGE_MOVED")
        old_enums = {each.name: each for each in old if isinstance(each, Enum)}
        new_enums = {each.name: each for each in new if isinstance(each, Enum)}
        for name in in_hash_order(old_enums, new_enums):
            with self._named(name):
                if name in old_enums and name in new_enums:
                    self._enums(old_enums[name], new_enums[name])
                else:
                    self.add("ENUM_REMOVED" if name in old_enums else "ENUM_ADDED")

    def _enums(self, old: Enum, new: Enum) -> None:
        before = {each.tag: each.name for each in old.constants}
        after = {each.tag: each.name for each in new.constants}
        for tag in in_hash_order(before, after):
            with self._at(str(tag)):
                if tag not in before or tag not in after:
                    self.add("ENUM_CONST_ADDED" if tag not in before else "ENUM_CONST_REMOVED")
                elif before[tag] != after[tag]:
                    self.add("ENUM_CONST_CHANGED")

    def compare_messages(self, old: Message, new: Message) -> None:
        if id(old) in self._entered:
            return
        self._entered.add(id(old))
        before = {each.tag: each for each in old.fields}
        after = {each.tag: each for each in new.fields}
        in_one_ofs = {field.tag for each in old.one_ofs for field in each.fields}
        for one_of in new.one_ofs:
            with self._at(one_of.name):
                moved = [field.tag for field in one_of.fields if before.pop(field.tag, None) is not None]
                existing = [field for field in one_of.fields if field.tag not in moved and field.tag in in_one_ofs]
                if len(moved) > 1:
                    self.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF")
                elif moved and existing:
                    self.add("FIELD_MOVED_TO_EXISTING_ONEOF")
        self._one_ofs(old, new)
        for tag in in_hash_order(before, after):
            with self._at(str(tag)):
                if tag in before and tag in after:
                    self._fields(before[tag], after[tag])
                elif tag in before:
                    required = before[tag].label == "required"
                    self.add("REQUIRED_FIELD_REMOVED" if required else "FIELD_REMOVED")
                else:
                    self.add("REQUIRED_FIELD_ADDED" if after[tag].label == "required" else "FIELD_ADDED")
        self.compare_types(old.types, new.types)
        self._entered.discard(id(old))

    def _one_ofs(self, old: Message, new: Message) -> None:
        before = {each.name: each for each in old.one_ofs}
        after = {each.name: each for each in new.one_ofs}
        for name in in_hash_order(before, after):
            with self._at(name):
                if name in before and name in after:
                    self._one_of(before[name], after[name])
                else:
                    self.add("ONEOF_REMOVED" if name in before else "ONEOF_ADDED")

    def _one_of(self, old: OneOf, new: OneOf) -> None:
        before = {each.tag: each for each in old.fields}
        after = {each.tag: each for each in new.fields}
        for tag in in_hash_order(before, after):
            with self._at(str(tag)):
                if tag in before and tag in after:
                    self._fields(before[tag], after[tag])
                else:
                    self.add("ONEOF_FIELD_REMOVED" if tag in before else "ONEOF_FIELD_ADDED")

    def _fields(self, old: Field, new: Field) -> None:
        if old.name != new.name:
            self.add("FIELD_NAME_CHANGED")
        self._labels_and_types(old.label, new.label, old.type, new.type)

    def _labels_and_types(self, old_label: str | None, new_label: str | None, old: str, new: str) -> None:
        old, new = self._as_map(self._old, old), self._as_map(self._new, new)
        kind = self._kind(self._old, old)
        if kind != self._kind(self._new, new):
            self.add("FIELD_KIND_CHANGED")
        elif kind == "scalar":
            self._scalars(old_label, new_label, old, new)
        elif kind == "map":
            for before, after in zip(_map_parts(old), _map_parts(new), strict=True):
                self._labels_and_types(None, None, before, after)
        else:
            self._messages(old, new)

    def _as_map(self, side: Side, kind: str) -> str:
        found = side.find(kind, self._scope)
        return (found[1].map_type or kind) if found is not None else kind

    def _kind(self, side: Side, kind: str) -> str:
        if kind in SCALARS:
            return "scalar"
        if kind.startswith("map<"):
            return "map"
        found = side.find(kind, self._scope)
        return "scalar" if found is not None and isinstance(found[1].type, Enum) else "message"

    def _scalars(self, old_label: str | None, new_label: str | None, old: str, new: str) -> None:
        kind = SCALAR_KINDS.get(old, "number")
        if kind != SCALAR_KINDS.get(new, "number"):
            self.add("FIELD_SCALAR_KIND_CHANGED")
        elif old_label is not None and new_label is not None and old_label != new_label:
            self.add("FIELD_STRING_OR_BYTES_LABEL_CHANGED" if kind == "text" else "FIELD_NUMERIC_LABEL_CHANGED")

    def _messages(self, old: str, new: str) -> None:
        before, after = self._old.find(old, self._scope), self._new.find(new, self._scope)
        if before is None or after is None:
            if old != new:
                self.add("FIELD_NAMED_TYPE_CHANGED")
            return
        local = _local(*before)
        if local != _local(*after):
            self.add("FIELD_NAMED_TYPE_CHANGED")
            return
        one, other = before[1].type, after[1].type
        if before[1].origin == after[1].origin or not isinstance(one, Message) or not isinstance(other, Message):
            return  # both in the schema itself, where it is compared anyway, or the same file
        inner = Comparison(
            Side(self._old.types, before[1].package),
            Side(self._new.types, after[1].package),
            local.split("."),
            frozenset(self._entered),
        )
        inner.compare_messages(one, other)
        self.found += inner.found
        if not all(each.compatible for each in inner.found):
            self.add("FIELD_NAMED_TYPE_CHANGED")

    @contextmanager
    def _at(self, step: str) -> Iterator[None]:
        self._path.append(step)
        yield
        self._path.pop()

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        self._scope.append(name)
        with self._at(name):
            yield
        self._scope.pop()


def _local(full_name: str, info: TypeInfo) -> str:
    return full_name.removeprefix(f"{info.package}.") if info.package else full_name


def _map_parts(kind: str) -> tuple[str, str]:
    key, _, value = kind[4:-1].partition(",")
    return key.strip(), value.strip()
