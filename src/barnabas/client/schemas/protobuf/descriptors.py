"""Between .proto files and the descriptors that clients compile them to.

A client may register the bytes of a FileDescriptorProto, and ask for any schema in that form (`format=serialized`).
Options that are extensions are written by `custom`, which knows their types; those of package confluent are read, as
Confluent's registry does.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.protobuf.elements import (
    SCALARS,
    Constant,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Reserved,
    Rpc,
    Service,
    Word,
)
from barnabas.client.schemas.protobuf.names import Types

Proto = pb.FieldDescriptorProto
TYPE_NAMES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in Proto.Type.items()
    if name.removeprefix("TYPE_").lower() in SCALARS
}
TYPE_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}
LABELS = {Proto.LABEL_OPTIONAL: "optional", Proto.LABEL_REQUIRED: "required", Proto.LABEL_REPEATED: "repeated"}
LABEL_NUMBERS = {name: number for number, name in LABELS.items()}
EDITIONS = {"2023": 1000, "2024": 1001}
FILE_NAME = "default"


class Custom(Protocol):
    def encoded(self, options: Iterable[Option], package: str, scope: tuple[str, ...], options_type: str) -> bytes: ...


def read_descriptor(text: str) -> pb.FileDescriptorProto | None:
    """None if the text is not the base64 of a descriptor."""
    try:
        data = base64.b64decode(text, validate=True)
        file = pb.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file if data else None


def write_descriptor(file: ProtoFile, types: Types, custom: Custom) -> str:
    return base64.b64encode(write_file(file, types, custom).SerializeToString()).decode()


def write_file(file: ProtoFile, types: Types, custom: Custom | None = None) -> pb.FileDescriptorProto:
    return DescriptorWriter(file, types, custom).file()


def file_from(file: pb.FileDescriptorProto) -> ProtoFile:
    public = set(file.public_dependency)
    edition = next((name for name, number in EDITIONS.items() if number == getattr(file, "edition", 0)), None)
    return ProtoFile(
        syntax=file.syntax if file.syntax in ("proto2", "proto3") else None,
        edition=edition if file.syntax == "editions" else None,
        package=file.package or None,
        imports=[each for index, each in enumerate(file.dependency) if index not in public],
        public_imports=[each for index, each in enumerate(file.dependency) if index in public],
        types=[*(_message(each, file) for each in file.message_type), *map(_enum, file.enum_type)],
        services=[_service(each) for each in file.service],
        extends=_extends(file.extension, file),
        options=_options(file.options),
    )


def _message(message: pb.DescriptorProto, file: pb.FileDescriptorProto) -> Message:
    one_ofs = [OneOf(each.name) for each in message.oneof_decl]
    fields: list[Field] = []
    for each in message.field:
        inside = each.HasField("oneof_index") and not each.proto3_optional
        (one_ofs[each.oneof_index].fields if inside else fields).append(_field(each, file, inside))
    reserved: list[Reserved] = [Reserved([(each.start, each.end - 1)]) for each in message.reserved_range]
    return Message(
        message.name,
        fields=fields,
        one_ofs=[each for each in one_ofs if each.fields],
        types=[*(_message(each, file) for each in message.nested_type), *map(_enum, message.enum_type)],
        options=_options(message.options),
        reserved=reserved + [Reserved([each]) for each in message.reserved_name],
        extensions=[Extensions([(each.start, each.end - 1)]) for each in message.extension_range],
        extends=_extends(message.extension, file),
    )


def _field(field: pb.FieldDescriptorProto, file: pb.FileDescriptorProto, in_one_of: bool) -> Field:
    label: str | None = LABELS.get(field.label)
    if in_one_of or (label == "optional" and file.syntax != "proto2" and file.syntax and not field.proto3_optional):
        label = None
    kind = TYPE_NAMES.get(field.type) if not field.type_name else field.type_name
    default: object = None
    if field.HasField("default_value") and file.syntax != "proto3":
        text = field.default_value
        default = text if field.type in (Proto.TYPE_STRING, Proto.TYPE_BYTES) else Word(text)
    return Field(
        label,
        kind or field.type_name,
        field.name,
        field.number,
        options=_options(field.options),
        default=default,
        json_name=field.json_name if field.HasField("json_name") else None,
    )


def _enum(enum: pb.EnumDescriptorProto) -> Enum:
    reserved: list[Reserved] = [Reserved([(each.start, each.end)]) for each in enum.reserved_range]
    return Enum(
        enum.name,
        constants=[Constant(each.name, each.number, _options(each.options)) for each in enum.value],
        options=_options(enum.options),
        reserved=reserved + [Reserved([each]) for each in enum.reserved_name],
    )


def _service(service: pb.ServiceDescriptorProto) -> Service:
    rpcs = [
        Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each.options),
        )
        for each in service.method
    ]
    return Service(service.name, rpcs, _options(service.options))


def _extends(fields: Iterable[pb.FieldDescriptorProto], file: pb.FileDescriptorProto) -> list[Extend]:
    by_name: dict[str, Extend] = {}
    for each in fields:
        by_name.setdefault(each.extendee, Extend(each.extendee)).fields.append(_field(each, file, False))
    return list(by_name.values())


def _options(options: Any) -> list[Option]:
    found = []
    for field, value in options.ListFields():
        if field.is_extension and field.full_name.startswith("confluent."):
            found.append(Option(field.full_name, _tree(value), parenthesized=True))
        if field.is_extension or field.name in ("uninterpreted_option", "features"):
            continue
        if field.type == FieldDescriptor.TYPE_STRING:
            found.append(Option(field.name, value))
        elif field.type == FieldDescriptor.TYPE_BOOL:
            found.append(Option(field.name, Word("true" if value else "false")))
        elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(value, int):
            found.append(Option(field.name, Word(field.enum_type.values_by_number[value].name)))
    return found


def _tree(value: Any) -> object:
    """A message of strings, as `confluent.Meta` is, as it is written in a .proto file."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _one_or_all([{"key": key, "value": value[key]} for key in sorted(value)])
    if isinstance(value, Sequence):
        return _one_or_all([_tree(each) for each in value])
    return {field.name: _tree(inner) for field, inner in value.ListFields()}


def _one_or_all(values: list[Any]) -> object:
    return values[0] if len(values) == 1 else values


class DescriptorWriter:
    def __init__(self, file: ProtoFile, types: Types, custom: Custom | None) -> None:
        self._file = file
        self._types = types
        self._custom = custom
        self._package = file.package or ""

    def file(self) -> pb.FileDescriptorProto:
        given = self._file
        file = pb.FileDescriptorProto(name=FILE_NAME, package=self._package or None)
        if given.edition is not None:
            file.syntax = "editions"
            file.edition = EDITIONS.get(given.edition, 0)
        elif given.syntax is not None:
            file.syntax = given.syntax
        file.dependency.extend([*given.imports, *given.public_imports])
        file.public_dependency.extend(range(len(given.imports), len(file.dependency)))
        for each in given.types:
            if isinstance(each, Message):
                self._message(each, file.message_type.add(), (each.name,))
            else:
                self._enum(each, file.enum_type.add(), ())
        for extend in given.extends:
            for field in extend.fields:
                added = file.extension.add(extendee=self._resolved(extend.name, ()))
                self._field(field, added, ())
        for service in given.services:
            added_service = file.service.add(name=service.name)
            for rpc in service.rpcs:
                added_rpc = added_service.method.add(
                    name=rpc.name,
                    input_type=self._resolved(rpc.request, ()),
                    output_type=self._resolved(rpc.response, ()),
                    client_streaming=rpc.request_streams or None,
                    server_streaming=rpc.response_streams or None,
                )
                self._options(rpc.options, added_rpc, ())
            self._options(service.options, added_service, ())
        self._options(given.options, file, ())
        return file

    def _message(self, message: Message, proto: pb.DescriptorProto, scope: tuple[str, ...]) -> None:
        proto.name = message.name
        for field in message.fields:
            self._member(field, proto, scope)
        for one_of in message.one_ofs:
            index = len(proto.oneof_decl)
            self._options(one_of.options, proto.oneof_decl.add(name=one_of.name), scope)
            for field in one_of.fields:
                self._field(field, proto.field.add(oneof_index=index), scope)
        for group in [*message.groups, *(each for one_of in message.one_ofs for each in one_of.groups)]:
            self._group(group, proto, scope)
        for each in message.types:
            if isinstance(each, Message):
                self._message(each, proto.nested_type.add(), (*scope, each.name))
            else:
                self._enum(each, proto.enum_type.add(), scope)
        for reserved in message.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    proto.reserved_name.append(value)
                else:
                    first, last = (value, value) if isinstance(value, int) else value
                    proto.reserved_range.add(start=first, end=last + 1)
        for extensions in message.extensions:
            for span in extensions.values:
                first, last = (span, span) if isinstance(span, int) else span
                proto.extension_range.add(start=first, end=last + 1)
        for extend in message.extends:
            for field in extend.fields:
                self._field(field, proto.extension.add(extendee=self._resolved(extend.name, scope)), scope)
        self._options(message.options, proto, scope)
        # Those of optional fields come after those that are written.
        for added in proto.field:
            if added.proto3_optional:
                added.oneof_index = len(proto.oneof_decl)
                proto.oneof_decl.add(name=f"_{added.name}")

    def _member(self, field: Field, proto: pb.DescriptorProto, scope: tuple[str, ...]) -> None:
        parts = field.map_types
        added = proto.field.add()
        if parts is None:
            self._field(field, added, scope)
            added.proto3_optional = self._file.is_proto3 and field.label == "optional"
            if not added.proto3_optional:
                added.ClearField("proto3_optional")
            return
        entry = "".join(each[:1].upper() + each[1:] for each in field.name.split("_")) + "Entry"
        nested = proto.nested_type.add(name=entry)
        nested.options.map_entry = True
        self._field(Field("optional", parts[0], "key", 1), nested.field.add(), scope)
        self._field(Field("optional", parts[1], "value", 2), nested.field.add(), scope)
        full_name = ".".join(("", *([self._package] if self._package else []), *scope, entry))
        added.name, added.number, added.label = field.name, field.tag, Proto.LABEL_REPEATED
        added.type, added.type_name = Proto.TYPE_MESSAGE, full_name
        self._options(field.options, added, scope)

    def _field(self, field: Field, proto: pb.FieldDescriptorProto, scope: tuple[str, ...]) -> None:
        proto.name, proto.number = field.name, field.tag
        proto.label = LABEL_NUMBERS[field.label or "optional"]
        number = TYPE_NUMBERS.get(field.type)
        if number is not None:
            proto.type = number
        else:
            full_name = self._resolved(field.type, scope)
            is_enum = isinstance(self._types.by_name[full_name[1:]].type, Enum)
            proto.type, proto.type_name = (Proto.TYPE_ENUM if is_enum else Proto.TYPE_MESSAGE), full_name
        if field.default is not None:
            proto.default_value = field.default.text if isinstance(field.default, Word) else str(field.default)
        if field.json_name is not None:
            proto.json_name = field.json_name
        self._options(field.options, proto, scope)

    def _group(self, group: Group, proto: pb.DescriptorProto, scope: tuple[str, ...]) -> None:
        nested = proto.nested_type.add(name=group.name)
        for field in group.fields:
            self._field(field, nested.field.add(), (*scope, group.name))
        full_name = ".".join(("", *([self._package] if self._package else []), *scope, group.name))
        proto.field.add(
            name=group.name.lower(),
            number=group.tag,
            label=LABEL_NUMBERS[group.label or "optional"],
            type=Proto.TYPE_GROUP,
            type_name=full_name,
        )

    def _enum(self, enum: Enum, proto: pb.EnumDescriptorProto, scope: tuple[str, ...]) -> None:
        proto.name = enum.name
        for constant in enum.constants:
            self._options(constant.options, proto.value.add(name=constant.name, number=constant.tag), scope)
        for reserved in enum.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    proto.reserved_name.append(value)
                else:
                    first, last = (value, value) if isinstance(value, int) else value
                    proto.reserved_range.add(start=first, end=last)
        self._options(enum.options, proto, scope)

    def _options(self, options: Iterable[Option], proto: Any, scope: tuple[str, ...]) -> None:
        _set_options(options, proto)
        custom = [each for each in options if each.parenthesized]
        if self._custom is not None and custom:
            options_type = type(proto).DESCRIPTOR.fields_by_name["options"].message_type.full_name
            proto.options.MergeFromString(self._custom.encoded(custom, self._package, scope, options_type))

    def _resolved(self, name: str, scope: Sequence[str]) -> str:
        found = self._types.find(name, self._package, scope)
        if found is None:
            raise InvalidSchema(f"Could not resolve type: {name}")
        return f".{found}"


def _set_options(options: Iterable[Option], proto: Any) -> None:
    known = type(proto).DESCRIPTOR.fields_by_name["options"].message_type.fields_by_name
    for option in options:
        field = known.get(option.name)
        if field is None or option.parenthesized:
            continue
        if field.type == FieldDescriptor.TYPE_STRING and isinstance(option.value, str):
            setattr(proto.options, option.name, option.value)
        elif field.type == FieldDescriptor.TYPE_BOOL and isinstance(option.value, Word):
            setattr(proto.options, option.name, option.value.text == "true")
        elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(option.value, Word):
            value = field.enum_type.values_by_name.get(option.value.text)
            if value is not None and not field.is_repeated:
                setattr(proto.options, option.name, value.number)
