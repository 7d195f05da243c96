"""AvroConverter: records with the schemas of a registry, as Confluent's converter maps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.serdes import Decoded, Deserializer, Serializer, open_registry
from barnabas.client.serdes import Schema as Registered
from barnabas.client.serdes.settings import SerdeSettings
from barnabas.pipelines.connect.converters.converter import Converter
from barnabas.pipelines.connect.data.record import NOTHING, SchemaAndValue
from barnabas.pipelines.connect.data.schema import (
    BITS,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    Struct,
    Type,
    array,
    decimal_schema,
    from_ms,
    map_of,
    single,
)
from barnabas.pipelines.connect.errors import ConfigError, DataError, RetriableError

NAMESPACE = "io.confluent.connect.avro"
PLAIN = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
READ = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
}
LOGICAL = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
PRECISION = 64


class RegistryConverter(Converter):
    """Records whose schemas are in a registry; subclasses know one language of schemas."""

    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        url = settings.get("schema.registry.url")
        if not url:
            raise ConfigError(f"is needed by {type(self).__name__}", "schema.registry.url", None)
        self._registry = open_registry(url, settings)
        self._settings = SerdeSettings.from_properties(settings, is_key=is_key)
        self._deserializer = Deserializer(self._registry, is_key=is_key)
        self._serializers: dict[int, tuple[Schema, Serializer]] = {}

    def registered(self, schema: Schema) -> Registered:
        """What is registered for a schema."""
        raise NotImplementedError

    def encoded(self, schema: Schema, value: Any) -> Any:
        """What the language's codec takes."""
        raise NotImplementedError

    def decoded(self, found: Decoded) -> SchemaAndValue:
        raise NotImplementedError

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError(f"{type(self).__name__} needs a schema: the record has none")
        known = self._serializers.get(id(schema))
        if known is None:
            serializer = Serializer(self._registry, self.registered(schema), self._settings, is_key=self.is_key)
            known = self._serializers[id(schema)] = schema, serializer
        written: bytes | None = self._asked(lambda: known[1].encode(topic, self.encoded(schema, value)))
        return written

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NOTHING
        found: SchemaAndValue = self._asked(lambda: self.decoded(self._deserializer.open(data)))
        return found

    @staticmethod
    def _asked(ask: Any) -> Any:
        try:
            return ask()
        except DataError:
            raise
        except OSError as error:
            raise RetriableError(f"the schema registry does not answer: {error}") from error
        except (ClientError, ValueError, TypeError, LookupError) as error:
            raise DataError(f"{type(error).__name__}: {error}") from error
        except Exception as error:  # the serdes' own errors
            raise DataError(str(error)) from error


class AvroConverter(RegistryConverter):
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._schemas: dict[str, Schema] = {}

    def registered(self, schema: Schema) -> Registered:
        return Registered(json.dumps(avro_schema(schema)))

    def encoded(self, schema: Schema, value: Any) -> Any:
        return avro_value(schema, value)

    def decoded(self, found: Decoded) -> SchemaAndValue:
        text = found.registered.schema.text
        if text not in self._schemas:
            self._schemas[text] = connect_schema(json.loads(text), {})
        schema = self._schemas[text]
        return SchemaAndValue(schema, connect_value(schema, found.codec.decode(found.body)))


def avro_schema(schema: Schema) -> Any:
    tree = _avro(schema)
    return ["null", tree] if schema.optional else tree


def _avro(schema: Schema) -> Any:
    named: dict[str, Any] = {} if schema.name is None else {"connect.name": schema.name}
    named |= {} if schema.version is None else {"connect.version": schema.version}
    named |= {"connect.parameters": dict(schema.parameters)} if schema.parameters else {}
    if schema.type is Type.STRUCT:
        space, _, name = (schema.name or f"{NAMESPACE}.ConnectDefault").rpartition(".")
        fields = [_avro_field(each) for each in schema.fields]
        found: dict[str, Any] = {"type": "record", "name": name, "fields": fields}
        return found | ({"namespace": space} if space else {}) | named
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return {"type": "array", "items": avro_schema(schema.value_schema)} | named
    if schema.type is Type.MAP:
        assert schema.value_schema is not None
        if schema.key_schema is None or schema.key_schema.type is not Type.STRING:
            raise DataError("AvroConverter writes maps whose keys are texts only")
        return {"type": "map", "values": avro_schema(schema.value_schema)} | named
    plain = PLAIN[schema.type]
    if schema.name == DECIMAL:
        scale = int((schema.parameters or {}).get("scale", "0"))
        return {"type": "bytes", "logicalType": "decimal", "precision": PRECISION, "scale": scale} | named
    if schema.name in LOGICAL:
        return {"type": plain, "logicalType": LOGICAL[schema.name]} | named
    if schema.type in (Type.INT8, Type.INT16):
        return {"type": plain, "connect.type": schema.type.lower()} | named
    return {"type": plain} | named if named else plain


def _avro_field(field: Field) -> dict[str, Any]:
    found = {"name": field.name, "type": avro_schema(field.schema)}
    return found | {"default": None} if field.schema.optional else found


def avro_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return {each.name: avro_value(each.schema, value.get(each.name)) for each in schema.fields}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [avro_value(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return {key: avro_value(schema.value_schema, each) for key, each in value.items()}
    if schema.name == DATE:
        return value.date()
    return value.time() if schema.name == TIME else value


def connect_schema(tree: Any, known: dict[str, Schema]) -> Schema:
    if isinstance(tree, list):
        rest = [each for each in tree if each != "null"]
        if len(rest) != 1:
            raise DataError("AvroConverter reads unions of null and one other type only")
        return connect_schema(rest[0], known).but(optional="null" in tree)
    if isinstance(tree, str):
        if tree in READ:
            return Schema(type=READ[tree])
        if tree in known:
            return known[tree]
        raise DataError(f"AvroConverter does not know the type {tree}")
    kind = tree["type"]
    if kind == "array":
        return array(connect_schema(tree["items"], known))
    if kind == "map":
        return map_of(Schema(type=Type.STRING), connect_schema(tree["values"], known))
    if kind == "record":
        return _record(tree, known)
    if kind == "enum":
        return Schema(type=Type.STRING, name=tree.get("connect.name"))
    if kind == "fixed":
        return Schema(type=Type.BYTES, name=tree.get("connect.name"))
    logical = tree.get("logicalType", "")
    if logical == "decimal":
        return decimal_schema(int(tree.get("scale", 0)))
    if logical in ("date", "time-millis", "timestamp-millis", "timestamp-micros"):
        return {"date": DATE_SCHEMA, "time-millis": TIME_SCHEMA}.get(logical, TIMESTAMP_SCHEMA)
    found = connect_schema(kind, known)
    given = str(tree.get("connect.type", "")).upper()
    return found.but(type=Type[given] if given in BITS else found.type, name=tree.get("connect.name"),
                     version=tree.get("connect.version"), parameters=tree.get("connect.parameters"))  # fmt: skip


def _record(tree: dict[str, Any], known: dict[str, Schema]) -> Schema:
    full = f"{tree['namespace']}.{tree['name']}" if tree.get("namespace") else tree["name"]
    fields = tuple(
        Field(each["name"], index, connect_schema(each["type"], known)) for index, each in enumerate(tree["fields"])
    )
    name = tree.get("connect.name") or (None if full == f"{NAMESPACE}.ConnectDefault" else full)
    made = Schema(type=Type.STRUCT, fields=fields, name=name, version=tree.get("connect.version"))
    known[full] = known[tree["name"]] = made
    return made


def connect_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        values = {each.name: connect_value(each.schema, value[each.name]) for each in schema.fields}
        return Struct.unchecked(schema, values)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [connect_value(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return {key: connect_value(schema.value_schema, each) for key, each in value.items()}
    if schema.name == DATE and isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if schema.name == TIME and isinstance(value, time):
        passed = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
        return from_ms(passed // timedelta(milliseconds=1))
    return single(value) if schema.type is Type.FLOAT32 else value
