"""What a converter is, and the plain ones: text, bytes and numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import NOTHING, SchemaAndValue
from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    OPTIONAL_BYTES,
    OPTIONAL_STRING,
    Schema,
    Type,
    java_class,
    single,
)
from barnabas.pipelines.connect.errors import ConfigError, DataError


def same(values: Any) -> Any:
    return values


class Converter:
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        self.settings, self.is_key = settings, is_key

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def column_writer(self, schema: Schema) -> Callable[[Any], Any] | None:
        """What makes a column of bytes of an Arrow column of values with this schema; None if it cannot be had."""
        return None

    def column_reader(self) -> Callable[[Any], tuple[Schema | None, Any] | None] | None:
        """What makes a table of an Arrow column of bytes, or None of one that it cannot read as a whole."""
        return None

    def header_to_bytes(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.to_bytes(topic, schema, value)

    def header_to_connect(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)


class StringConverter(Converter):
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        given = settings.get("converter.encoding", "UTF-8")
        self._written = settings.get("converter.encoding.serializer", given)
        self._read = settings.get("converter.encoding.deserializer", given)
        for name in (self._written, self._read):
            try:
                "".encode(name)
            except LookupError:
                raise ConfigError("is no encoding", "converter.encoding", name) from None

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else java_text(value).encode(self._written, "replace")

    def column_writer(self, schema: Schema) -> Callable[[Any], Any] | None:
        return same if schema.type is Type.STRING and self._written.lower() in ("utf-8", "utf8") else None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        text = None if data is None else bytes(data).decode(self._read, "replace")
        return SchemaAndValue(OPTIONAL_STRING, text)


class ByteArrayConverter(Converter):
    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(f"ByteArrayConverter is not compatible with objects of type class {java_class(value)}")
        return None if value is None else bytes(value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_BYTES, None if data is None else bytes(data))


class NumberConverter(Converter):
    """Big-endian, as Kafka's serializers of the same names write them."""

    schema: Schema
    packed: struct.Struct
    name: str

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        fits = isinstance(value, float if self.schema.type in (Type.FLOAT32, Type.FLOAT64) else int)
        fits = fits and (schema is None or schema.type is self.schema.type)
        if not fits or isinstance(value, bool):
            raise DataError(f"Failed to serialize to {self._words()} (was class {java_class(value)})")
        try:
            return self.packed.pack(value)
        except struct.error:
            raise DataError(f"Failed to serialize to {self._words()}: {value} is out of range") from None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != self.packed.size:
            raise DataError(f"Failed to deserialize {self._words()}: Size of data received is not {self.packed.size}")
        value = self.packed.unpack(data)[0]
        return SchemaAndValue(self.schema, single(value) if self.schema.type is Type.FLOAT32 else value)

    def _words(self) -> str:
        return ("an " if self.name == "integer" else "a ") + self.name


class ShortConverter(NumberConverter):
    schema, packed, name = INT16.as_optional(), struct.Struct(">h"), "short"


class IntegerConverter(NumberConverter):
    schema, packed, name = INT32.as_optional(), struct.Struct(">i"), "integer"


class LongConverter(NumberConverter):
    schema, packed, name = INT64.as_optional(), struct.Struct(">q"), "long"


class FloatConverter(NumberConverter):
    schema, packed, name = FLOAT32.as_optional(), struct.Struct(">f"), "float"


class DoubleConverter(NumberConverter):
    schema, packed, name = FLOAT64.as_optional(), struct.Struct(">d"), "double"


class BooleanConverter(Converter):
    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is not None and not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type class {java_class(value)}")
        return None if value is None else b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("Failed to deserialize boolean: one byte, 0 or 1, is expected")
        return SchemaAndValue(BOOLEAN.as_optional(), None if data is None else data == b"\x01")


class SimpleHeaderConverter(Converter):
    """Texts that are read as numbers, truth values, dates, arrays and maps where they look like it."""

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        from barnabas.pipelines.connect.data.header_values import write

        return None if value is None else write(value).encode()

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        from barnabas.pipelines.connect.data.header_values import parse

        if data is None:
            return NOTHING
        try:
            return parse(bytes(data).decode())
        except UnicodeDecodeError:
            return SchemaAndValue(OPTIONAL_BYTES, bytes(data))
