"""Prints a .proto file as Confluent's registry does: messages before enums, no comments, two spaces a level."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.schemas.protobuf.elements import (
    TAG_MAX,
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

ESCAPES = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    | {"\\": "\\\\", "'": "\\'", '"': '\\"'}
)


class Printer:
    def __init__(self, *, with_extensions: bool = True, in_order: bool = False) -> None:
        self._with_extensions = with_extensions
        self._in_order = in_order  # `default` and `json_name` among the other options, by name

    def file(self, file: ProtoFile) -> str:
        text = ""
        if file.edition is not None:
            text += f'edition = "{file.edition}";\n'
        elif file.syntax is not None:
            text += f'syntax = "{file.syntax}";\n'
        if file.package is not None:
            text += f"package {file.package};\n"
        if file.imports or file.public_imports:
            text += "\n" + "".join(f'import "{each}";\n' for each in file.imports)
            text += "".join(f'import public "{each}";\n' for each in file.public_imports)
        if options := self._chosen(file.options):
            text += "\n" + "".join(map(self._statement_option, options))
        if file.types:
            text += "\n" + "".join(self._types(file.types))
        if self._with_extensions and file.extends:
            text += "\n" + "".join(map(self._extend, file.extends))
        if file.services:
            text += "\n" + "".join(map(self._service, file.services))
        return text

    def _types(self, types: Iterable[Message | Enum]) -> Iterable[str]:
        types = list(types)
        yield from (self._message(each) for each in types if isinstance(each, Message))
        yield from (self._enum(each) for each in types if isinstance(each, Enum))

    def _message(self, message: Message) -> str:
        sections = [
            map(self._reserved, message.reserved),
            map(self._statement_option, self._chosen(message.options)),
            map(self._field, message.fields),
            map(self._one_of, message.one_ofs),
            map(self._group, message.groups),
            map(self._extensions, message.extensions if self._with_extensions else ()),
            map(self._extend, message.extends if self._with_extensions else ()),
            self._types(message.types),
        ]
        return f"message {message.name} {{{''.join(map(_section, sections))}}}\n"

    def _one_of(self, one_of: OneOf) -> str:
        sections = [
            map(self._statement_option, self._chosen(one_of.options)),
            map(self._field, one_of.fields),
            map(self._group, one_of.groups),
        ]
        return f"oneof {one_of.name} {{{''.join(map(_section, sections))}}}\n"

    def _group(self, group: Group) -> str:
        label = f"{group.label} " if group.label else ""
        return f"{label}group {group.name} = {group.tag} {{{_section(map(self._field, group.fields))}}}\n"

    def _enum(self, enum: Enum) -> str:
        inside = _section(map(self._reserved, enum.reserved))
        if not enum.reserved and (enum.options or enum.constants):
            inside = "\n"
        for each in self._chosen(enum.options):
            inside += _indented(self._statement_option(each))
        for constant in enum.constants:
            inside += _indented(self._constant(constant))
        return f"enum {enum.name} {{{inside}}}\n"

    def _constant(self, constant: Constant) -> str:
        return f"{constant.name} = {constant.tag}{self._list(self._chosen(constant.options))};\n"

    def _field(self, field: Field) -> str:
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", field.default))
        if field.json_name is not None:
            options.append(Option("json_name", field.json_name))
        if self._in_order:
            options.sort(key=lambda each: each.name)
        label = f"{field.label} " if field.label else ""
        return f"{label}{field.type} {field.name} = {field.tag}{self._list(self._chosen(options))};\n"

    def _extend(self, extend: Extend) -> str:
        return f"extend {extend.name} {{{_section(map(self._field, extend.fields))}}}\n"

    def _extensions(self, extensions: Extensions) -> str:
        values = ", ".join(map(_range, extensions.values))
        return f"extensions {values}{self._list(self._chosen(extensions.options))};\n"

    def _reserved(self, reserved: Reserved) -> str:
        return f"reserved {', '.join(map(_range, reserved.values))};\n"

    def _service(self, service: Service) -> str:
        sections = [map(self._statement_option, self._chosen(service.options)), map(self._rpc, service.rpcs)]
        return f"service {service.name} {{{''.join(map(_section, sections))}}}\n"

    def _rpc(self, rpc: Rpc) -> str:
        request = f"{'stream ' if rpc.request_streams else ''}{rpc.request}"
        response = f"{'stream ' if rpc.response_streams else ''}{rpc.response}"
        text = f"rpc {rpc.name} ({request}) returns ({response})"
        if options := self._chosen(rpc.options):
            text += " {\n" + "".join(_indented(self._statement_option(each)) for each in options) + "}"
        return f"{text};\n"

    def _chosen(self, options: list[Option]) -> list[Option]:
        if self._with_extensions:
            return options
        return [each for each in options if not each.parenthesized or each.name.startswith("confluent.")]

    def _statement_option(self, option: Option) -> str:
        return f"option {self._option(option)};\n"

    def _list(self, options: list[Option]) -> str:
        if not options:
            return ""
        shown = [self._option(each) for each in options]
        if len(shown) == 1:
            return f" [{shown[0]}]"
        return " [\n" + "".join(_indented(each) for each in _with_commas(shown)) + "]"

    def _option(self, option: Option) -> str:
        name = f"({option.name})" if option.parenthesized else option.name
        if isinstance(option.value, Option):
            return f"{name}.{self._option(option.value)}"
        if isinstance(option.value, list):
            values = [self.value(each) for each in option.value]
            if len(values) == 1:
                return f"{name} = [{values[0]}]"
            return f"{name} = [\n" + "".join(_indented(each) for each in _with_commas(values)) + "]"
        return f"{name} = {self.value(option.value)}"

    def value(self, value: object) -> str:
        if isinstance(value, str):
            return f'"{value.translate(ESCAPES)}"'
        if isinstance(value, Word):
            return value.text
        if isinstance(value, dict):
            shown = [f"{key}: {self.value(each)}" for key, each in value.items()]
            return "{\n" + "".join(_indented(each) for each in _with_commas(shown)) + "}"
        if isinstance(value, list):
            return "[\n" + "".join(_indented(each) for each in _with_commas(map(self.value, value))) + "]"
        assert isinstance(value, Option)
        return self._option(value)


def _section(parts: Iterable[str]) -> str:
    inside = "".join(map(_indented, parts))
    return f"\n{inside}" if inside else ""


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


def _with_commas(parts: Iterable[str]) -> list[str]:
    listed = list(parts)
    return [f"{each}," for each in listed[:-1]] + listed[-1:]


def _range(value: str | int | tuple[int, int]) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int):
        return str(value)
    first, last = value
    return f"{first} to {last if last < TAG_MAX else 'max'}"
