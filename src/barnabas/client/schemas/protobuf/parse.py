"""Reads a .proto file, of syntax proto2, proto3 or an edition, by recursive descent."""

from __future__ import annotations

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.protobuf.elements import (
    SCALARS,
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
    Range,
    Reserved,
    Rpc,
    Service,
    Word,
)
from barnabas.client.schemas.protobuf.tokens import Tokens

LABELS = ("optional", "required", "repeated")
MAP_KEYS = SCALARS - {"bytes", "double", "float"}
INT32_MAX = (1 << 31) - 1


def parse_proto(text: str) -> ProtoFile:
    return Parser(text).file()


class Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text.removeprefix("\ufeff"))
        self._is_proto3 = False

    def file(self) -> ProtoFile:
        tokens, file = self._tokens, ProtoFile()
        while tokens.kind != "end":
            if tokens.take(";"):
                continue
            self._declaration(tokens.word(), file)
        _check_names(file.types)
        return file

    def _declaration(self, word: str, file: ProtoFile) -> None:
        tokens = self._tokens
        if word in ("syntax", "edition"):
            tokens.expect("=")
            value = tokens.string()
            if word == "syntax" and value not in ("proto2", "proto3"):
                tokens.fail(f"unexpected syntax: {value}")
            setattr(file, word, value)
            self._is_proto3 = file.is_proto3
            tokens.expect(";")
        elif word == "package":
            file.package = tokens.word()
            tokens.expect(";")
        elif word == "import":
            kind = tokens.next() if tokens.kind == "word" else ""
            (file.public_imports if kind == "public" else file.imports).append(tokens.string())
            tokens.expect(";")
        elif word == "option":
            file.options.append(self._statement_option())
        elif word == "message":
            file.types.append(self._message())
        elif word == "enum":
            file.types.append(self._enum())
        elif word == "service":
            file.services.append(self._service())
        elif word == "extend":
            file.extends.append(self._extend())
        else:
            tokens.fail(f"unexpected label: {word}")

    def _message(self) -> Message:
        tokens = self._tokens
        message = Message(tokens.word())
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            self._member(message)
        _check_tags(message)
        _check_names(message.types)
        return message

    def _member(self, message: Message) -> None:
        tokens = self._tokens
        word = tokens.word()
        # A field's type may be called like a keyword: then a name and a tag follow.
        if word == "message" and tokens.kind == "word":
            message.types.append(self._message())
        elif word == "enum" and tokens.kind == "word":
            message.types.append(self._enum())
        elif word == "oneof" and tokens.kind == "word":
            message.one_ofs.append(self._one_of())
        elif word == "option" and (tokens.kind == "word" or tokens.text == "("):
            message.options.append(self._statement_option())
        elif word == "reserved":
            message.reserved.append(self._reserved())
        elif word == "extensions":
            message.extensions.append(self._extensions())
        elif word == "extend" and tokens.kind == "word":
            message.extends.append(self._extend())
        else:
            label = word if word in LABELS and tokens.kind == "word" else None
            kind = tokens.word() if label else word
            if kind == "group":
                message.groups.append(self._group(label))
            else:
                message.fields.append(self._field(label, kind))

    def _field(self, label: str | None, kind: str) -> Field:
        tokens = self._tokens
        if label == "required" and self._is_proto3:
            tokens.fail("'required' label forbidden in proto3 field declarations")
        if kind == "map" and tokens.take("<"):
            key = tokens.word()
            tokens.expect(",")
            value = tokens.word()
            tokens.expect(">")
            if key not in MAP_KEYS:
                raise InvalidSchema(f"map key must be non-byte, non-floating point scalar: {key}")
            kind = f"map<{key}, {value}>"
        name = tokens.word()
        tokens.expect("=")
        field = Field(label, kind, name, tokens.integer())
        for option in self._options():
            if option.parenthesized or option.name not in ("default", "json_name"):
                field.options.append(option)
            elif option.name == "default":
                field.default = option.value
            else:
                field.json_name = str(option.value)
        tokens.expect(";")
        return field

    def _group(self, label: str | None) -> Group:
        tokens = self._tokens
        name = tokens.word()
        tokens.expect("=")
        group = Group(label, name, tokens.integer())
        self._options()
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            word = tokens.word()
            labelled = word in LABELS and tokens.kind == "word"
            group.fields.append(self._field(word if labelled else None, tokens.word() if labelled else word))
        return group

    def _one_of(self) -> OneOf:
        tokens = self._tokens
        one_of = OneOf(tokens.word())
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            kind = tokens.word()
            if kind == "option" and (tokens.kind == "word" or tokens.text == "("):
                one_of.options.append(self._statement_option())
            elif kind == "group":
                one_of.groups.append(self._group(None))
            else:
                one_of.fields.append(self._field(None, kind))
        return one_of

    def _enum(self) -> Enum:
        tokens = self._tokens
        enum = Enum(tokens.word())
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            word = tokens.word()
            if word == "option" and tokens.text != "=":
                enum.options.append(self._statement_option())
            elif word == "reserved" and tokens.text != "=":
                enum.reserved.append(self._reserved(INT32_MAX))
            else:
                tokens.expect("=")
                constant = Constant(word, tokens.integer())
                constant.options = self._options()
                tokens.expect(";")
                enum.constants.append(constant)
        return enum

    def _extend(self) -> Extend:
        tokens = self._tokens
        extend = Extend(tokens.word())
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            word = tokens.word()
            labelled = word in LABELS and tokens.kind == "word"
            extend.fields.append(self._field(word if labelled else None, tokens.word() if labelled else word))
        return extend

    def _service(self) -> Service:
        tokens = self._tokens
        service = Service(tokens.word())
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take(";"):
                continue
            word = tokens.word()
            if word == "option":
                service.options.append(self._statement_option())
            elif word == "rpc":
                service.rpcs.append(self._rpc())
            else:
                tokens.fail(f"unexpected label: {word}")
        return service

    def _rpc(self) -> Rpc:
        tokens = self._tokens
        rpc = Rpc(tokens.word(), "", "")
        rpc.request_streams, rpc.request = self._rpc_type()
        if tokens.word() != "returns":
            tokens.fail("expected 'returns'")
        rpc.response_streams, rpc.response = self._rpc_type()
        if tokens.take("{"):
            while not tokens.take("}"):
                if tokens.take(";"):
                    continue
                if tokens.word() != "option":
                    tokens.fail("expected 'option'")
                rpc.options.append(self._statement_option())
        else:
            tokens.expect(";")
        return rpc

    def _rpc_type(self) -> tuple[bool, str]:
        tokens = self._tokens
        tokens.expect("(")
        word = tokens.word()
        streams = word == "stream" and tokens.kind == "word"
        kind = tokens.word() if streams else word
        tokens.expect(")")
        return streams, kind

    def _reserved(self, greatest: int = TAG_MAX) -> Reserved:
        tokens = self._tokens
        values: list[str | int | Range] = []
        while True:
            if tokens.kind == "string":
                values.append(tokens.string())
            elif tokens.kind == "word" and not tokens.text.lstrip("-")[:1].isdigit():
                values.append(tokens.word())  # editions write names without quotes
            else:
                values.append(self._range(greatest))
            if not tokens.take(","):
                tokens.expect(";")
                return Reserved(values)

    def _extensions(self) -> Extensions:
        tokens = self._tokens
        values: list[int | Range] = [self._range(TAG_MAX)]
        while tokens.take(","):
            values.append(self._range(TAG_MAX))
        extensions = Extensions(values, self._options())
        tokens.expect(";")
        return extensions

    def _range(self, greatest: int) -> int | Range:
        tokens = self._tokens
        first = tokens.integer()
        if not tokens.take("to"):
            return first
        return (first, greatest) if tokens.take("max") else (first, tokens.integer())

    def _options(self) -> list[Option]:
        tokens = self._tokens
        options: list[Option] = []
        if not tokens.take("["):
            return options
        while True:
            options.append(self._option("="))
            if tokens.take("]"):
                return options
            tokens.expect(",")

    def _statement_option(self) -> Option:
        option = self._option("=")
        self._tokens.expect(";")
        return option

    def _option(self, separator: str) -> Option:
        tokens = self._tokens
        parenthesized = tokens.take("(")
        name = self._option_name(parenthesized)
        inner: list[str] = []
        while tokens.kind == "word" and tokens.text.startswith("."):
            inner += tokens.next()[1:].split(".")
            if tokens.take("("):
                inner[-1] = f"({tokens.word()})"
                tokens.expect(")")
        if not (separator == ":" and tokens.text in ("{", "[")):
            tokens.expect(separator)
        value = self._value()
        for each in reversed([each for each in inner if each]):
            value = Option(each, value)
        return Option(name, value, parenthesized)

    def _option_name(self, parenthesized: bool) -> str:
        tokens = self._tokens
        if tokens.take("["):
            name = tokens.word()
            while tokens.take("/"):
                name += "/" + tokens.word()
            tokens.expect("]")
            return f"[{name}]"
        name = tokens.word()
        if parenthesized:
            tokens.expect(")")
        return name

    def _value(self) -> object:
        tokens = self._tokens
        if tokens.kind == "string":
            return tokens.string()
        if tokens.take("{"):
            return self._map("}")
        if tokens.take("<"):
            return self._map(">")
        if tokens.take("["):
            values: list[object] = []
            while not tokens.take("]"):
                values.append(self._value())
                tokens.take(",")
            return values
        return Word(tokens.word())

    def _map(self, end: str) -> dict[str, object]:
        tokens = self._tokens
        values: dict[str, object] = {}
        while not tokens.take(end):
            option = self._option(":")
            value = {option.value.name: option.value.value} if isinstance(option.value, Option) else option.value
            known = values.get(option.name)
            if known is None:
                values[option.name] = value
            elif isinstance(known, list):
                known.append(value)
            else:
                values[option.name] = [known, value]
            if not tokens.take(","):
                tokens.take(";")
        return values


def _check_names(types: list[Message | Enum]) -> None:
    seen: set[str] = set()
    for each in types:
        if each.name in seen:
            raise InvalidSchema(f"Could not parse Protobuf - {each.name} is already defined")
        seen.add(each.name)


def _check_tags(message: Message) -> None:
    seen: dict[int, str] = {}
    members: list[Field | Group] = [*message.fields, *message.groups]
    for one_of in message.one_ofs:
        members += [*one_of.fields, *one_of.groups]
    for each in members:
        if not 0 < each.tag <= TAG_MAX or 19_000 <= each.tag < 20_000:
            raise InvalidSchema(f"Could not parse Protobuf - tag is out of range: {each.tag}")
        if each.tag in seen:
            raise InvalidSchema(
                f"Could not parse Protobuf - multiple fields share tag {each.tag}: {seen[each.tag]}, {each.name}"
            )
        seen[each.tag] = each.name
