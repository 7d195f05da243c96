"""Between lines of a terminal and records that have schemas in a registry, by the properties of Confluent's tools.

Lines are JSON: Avro's JSON encoding, with `{"long": 999}` in unions, or Protobuf's JSON mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.records.deserializers import SerializationError
from barnabas.cli.records.formatters import ConsumedRecord, DefaultFormatter, Formatter
from barnabas.cli.records.line_reader import LineReader, LineRecord
from barnabas.client.errors import InvalidSetting
from barnabas.client.serdes import (
    Deserializer,
    Registry,
    RegistryRefused,
    Schema,
    SchemaReference,
    SerdeError,
    SerdeSettings,
    Serializer,
    open_registry,
)

if TYPE_CHECKING:
    from barnabas.client.records import ConsumerRecord

READERS = {"AvroMessageReader": "AVRO", "JsonSchemaMessageReader": "JSON", "ProtobufMessageReader": "PROTOBUF"}
PLAIN_SERIALIZERS = ("StringSerializer", "ByteArraySerializer", "BytesSerializer")
PLAIN_DESERIALIZERS = ("StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer")
DEFAULT_URL = "http://localhost:8081"


class SchemaLineReader(LineReader):
    """Lines whose values, and keys if they are parsed, are JSON of a schema."""

    plain = False

    def __init__(self, topic: str, schema_type: str, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        self._topic = topic
        self._type = schema_type
        self._properties = dict(properties)
        self._registry = registry_of(properties)
        self._value = self._serializer("value")
        self._key: Serializer | None = None
        serializer = properties.get("key.serializer", "").rpartition(".")[2]
        if self._parse_key and serializer not in PLAIN_SERIALIZERS:
            self._key = self._serializer("key")

    def read(self, line: bytes) -> LineRecord:
        key, value, headers = super().read(line)
        return LineRecord(
            key if self._key is None else self._encoded(key, self._key, headers),
            self._encoded(value, self._value, headers),
            headers,
        )

    def _encoded(
        self, text: bytes | None, serializer: Serializer, headers: list[tuple[str, bytes | None]]
    ) -> bytes | None:
        if text is None:
            return None
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            shown = text.decode(errors="replace")
            raise ToolFailed(f"Error deserializing json on line number {self._number}: '{shown}'") from None
        try:
            return serializer.encode_json(self._topic, tree, headers)
        except SerdeError as error:
            raise ToolFailed(f"Line number {self._number} does not fit the schema: {error}") from None

    def _serializer(self, part: str) -> Serializer:
        settings = SerdeSettings.from_properties(_serde_properties(self._properties, part), is_key=part == "key")
        schema = None
        if settings.use_id is None and not settings.use_latest:
            schema = self._schema(part)
        return Serializer(self._registry, schema, settings, is_key=part == "key")

    def _schema(self, part: str) -> Schema:
        text, path = self._properties.get(f"{part}.schema"), self._properties.get(f"{part}.schema.file")
        if text and path:
            raise UsageError(f"Only one of {part}.schema and {part}.schema.file is possible.")
        if path:
            try:
                with open(path) as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise UsageError(f"{part}.schema.file {path} cannot be read: {reason}.") from None
        if not text:
            raise UsageError(f"One of {part}.schema, {part}.schema.file and {part}.schema.id is needed.")
        return Schema(text, self._type, _references(self._properties, part))


def _references(properties: Mapping[str, str], part: str) -> tuple[SchemaReference, ...]:
    """`value.refs` holds what a registration would: [{"name": ..., "subject": ..., "version": ...}]."""
    text = properties.get(f"{part}.refs")
    if not text:
        return ()
    try:
        return tuple(SchemaReference(each["name"], each["subject"], int(each["version"])) for each in json.loads(text))
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{part}.refs is not a list of name, subject and version.") from None


def _serde_properties(properties: Mapping[str, str], part: str) -> dict[str, str]:
    given = dict(properties)
    if "auto.register" in given:
        given["auto.register.schemas"] = given["auto.register"]
    if schema_id := given.get(f"{part}.schema.id"):
        given["use.schema.id"] = schema_id
    return given


def registry_of(properties: Mapping[str, str]) -> Registry:
    return open_registry(properties.get("schema.registry.url", DEFAULT_URL), properties)


def schema_formatter(properties: Mapping[str, str]) -> Formatter:
    """Prints what Kafka's default formatter prints, with JSON for keys and values of schemas."""
    registry = registry_of(properties)
    plain_key = properties.get("key.deserializer", "").rpartition(".")[2] in PLAIN_DESERIALIZERS
    plain_value = properties.get("value.deserializer", "").rpartition(".")[2] in PLAIN_DESERIALIZERS
    shown = {name: text for name, text in properties.items() if not name.endswith(".deserializer")}
    default = DefaultFormatter(shown)
    needs_key = properties.get("print.key", "").strip().lower() == "true" and not plain_key
    keys, values = Deserializer(registry, is_key=True), Deserializer(registry)

    def write(record: ConsumedRecord, out: BinaryIO) -> None:
        consumed = cast("ConsumerRecord", record)
        try:
            key = json_text(keys, consumed.key, consumed.headers) if needs_key else consumed.key
            value = consumed.value if plain_value else json_text(values, consumed.value, consumed.headers)
        except (SerdeError, RegistryRefused) as error:
            raise SerializationError(str(error)) from None
        default.write(consumed._replace(key=key, value=value), out)

    return write


def json_text(deserializer: Deserializer, data: bytes | None, headers: Any) -> bytes | None:
    if data is None:
        return None
    tree = deserializer.decode_json(bytes(data), headers)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decoding(url: str) -> Callable[[ConsumerRecord], ConsumerRecord]:
    """Keys and values as JSON where they have a schema, and as they are where not."""
    try:
        registry = open_registry(url)
    except InvalidSetting as error:
        raise UsageError(f"--decode: {error}") from None
    keys, values = Deserializer(registry, is_key=True), Deserializer(registry)

    def shown(deserializer: Deserializer, data: bytes | None, headers: Any) -> bytes | None:
        try:
            return json_text(deserializer, data, headers)
        except (SerdeError, RegistryRefused):
            return data

    def decode(record: ConsumerRecord) -> ConsumerRecord:
        key = shown(keys, record.key, record.headers)
        return record._replace(key=key, value=shown(values, record.value, record.headers))

    return decode
