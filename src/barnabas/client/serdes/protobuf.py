"""Protobuf: the messages of a .proto file, made from its text without a compiler.

Objects are dicts by the names of the fields, with plain Python values: bytes are bytes, numbers are numbers, enums are
names, and a field with presence that is not set is not there. A message of a class that protoc made can be written too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from barnabas.client.schemas import InvalidSchema, ResolvedReference
from barnabas.client.schemas.protobuf.pools import OWN, pool_of
from barnabas.client.schemas.protobuf.schema import imported, read_schema
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.protobuf_layout import WELL_KNOWN, layout_of
from barnabas.client.serdes.protobuf_values import fill, plain
from barnabas.client.serdes.schema import Schema


class ProtobufFile:
    """A file of messages; which of them a record is, is told by a path of indexes beside the schema's id."""

    def __init__(self, schema: Schema, references: Sequence[ResolvedReference] = ()) -> None:
        self.schema = schema
        self._codecs: dict[tuple[int, ...], ProtobufCodec] = {}
        try:
            file = read_schema(schema.text)
            known = {name: other for name, (other, _) in imported(file, references).items()}
            self._file = pool_of({**known, OWN: file}, [OWN]).FindFileByName(OWN)
        except InvalidSchema as error:
            raise SerdeError(f"The Protobuf schema is not valid: {error}") from None
        except (TypeError, KeyError) as error:
            raise SerdeError(f"The Protobuf schema is not valid: {str(error).strip()}") from None
        if not self._file.message_types_by_name:
            raise SerdeError("The Protobuf schema has no message.")

    def codec(self, message: str = "") -> ProtobufCodec:
        """Of the message with this name, in full or as it is in the file; of the first one if it is empty."""
        if not message:
            return self.codec_at((0,))
        for indexes, descriptor in _messages(self._file):
            if message in (descriptor.full_name, descriptor.full_name.removeprefix(f"{self._file.package}.")):
                return self._codec(indexes, descriptor)
        raise SerdeError(f"The Protobuf schema has no message {message}.")

    def codec_at(self, indexes: tuple[int, ...]) -> ProtobufCodec:
        known = self._codecs.get(indexes)
        if known is not None:
            return known
        here = list(self._file.message_types_by_name.values())
        descriptor = None
        for index in indexes:
            if not 0 <= index < len(here):
                raise SerdeError(f"The Protobuf schema has no message at {list(indexes)}.")
            descriptor = here[index]
            here = [each for each in descriptor.nested_types if not each.GetOptions().map_entry]
        if descriptor is None:
            raise SerdeError("The path to a message is empty.")
        return self._codec(indexes, descriptor)

    def _codec(self, indexes: tuple[int, ...], descriptor: Descriptor) -> ProtobufCodec:
        try:
            return self._codecs.setdefault(indexes, ProtobufCodec(self.schema, indexes, descriptor))
        except RecursionError:  # the library makes the class of a message after those of the messages in it
            raise SerdeError("The Protobuf schema's messages are nested too deeply.") from None


class ProtobufCodec:
    def __init__(self, schema: Schema, indexes: tuple[int, ...], descriptor: Descriptor) -> None:
        self.schema = schema
        self.indexes = indexes
        self.descriptor = descriptor
        self.record_name: str | None = descriptor.full_name
        self._class = message_factory.GetMessageClass(descriptor)
        self._layout = None if descriptor.full_name.startswith(WELL_KNOWN) else layout_of(descriptor)

    def encode(self, value: Any) -> bytes:
        message = value
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != self.record_name:
                raise SerdeError(f"A {self.record_name} is wanted, not a {value.DESCRIPTOR.full_name}.")
        else:
            message = self._filled(value)
        return _serialized(message)

    def _filled(self, value: Any) -> Message:
        if self._layout is not None and self._layout.suits(value):
            try:
                return self._class(**value)
            except (TypeError, ValueError, OverflowError):
                pass  # `fill` tells where it is wrong
        message = self._class()
        fill(message, value, "")
        return message

    def decode(self, data: bytes) -> Any:
        message = self.decode_message(data)
        return plain(message) if self._layout is None else self._layout.read(message)

    def decode_message(self, data: bytes) -> Message:
        message = self._class()
        try:
            message.ParseFromString(data)
        except (DecodeError, UnicodeDecodeError):
            raise SerdeError(f"The bytes are not a {self.record_name}.") from None
        return message

    def to_json(self, data: bytes) -> Any:
        try:
            return json_format.MessageToDict(
                self.decode_message(data), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        except (json_format.Error, TypeError, ValueError) as error:
            raise SerdeError(f"The {self.record_name} cannot be shown as JSON: {error}") from None

    def from_json(self, tree: Any) -> bytes:
        message = self._class()
        try:
            json_format.ParseDict(tree, message)
        except (json_format.Error, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise SerdeError(f"The value is not a {self.record_name}: {error}") from None
        return _serialized(message)


def _serialized(message: Message) -> bytes:
    try:
        return bytes(message.SerializeToString())
    except (EncodeError, UnicodeEncodeError) as error:
        raise SerdeError(f"The value is not whole: {error}") from None


def _messages(file: Any) -> list[tuple[tuple[int, ...], Descriptor]]:
    found: list[tuple[tuple[int, ...], Descriptor]] = []

    def walk(descriptors: Sequence[Descriptor], path: tuple[int, ...]) -> None:
        messages = [each for each in descriptors if not each.GetOptions().map_entry]
        for index, descriptor in enumerate(messages):
            found.append(((*path, index), descriptor))
            walk(descriptor.nested_types, (*path, index))

    walk(list(file.message_types_by_name.values()), ())
    return found
