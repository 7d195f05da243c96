"""Columns from the schema of a subject, where CREATE names none. Names are upper case, as those of statements."""

from __future__ import annotations

import json
from typing import Any

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.metastore import SourceColumn
from barnabas.pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)

AVRO = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "fixed": BYTES,
    "enum": STRING,
}
LOGICAL = {"timestamp-millis": TIMESTAMP, "date": DATE, "time-millis": TIME}
PROTOBUF = {1: INTEGER, 2: BIGINT, 3: BIGINT, 4: BIGINT, 5: DOUBLE, 6: DOUBLE, 7: BOOLEAN, 8: STRING, 9: STRING}
MESSAGES = {"google.protobuf.Timestamp": TIMESTAMP, "google.type.Date": DATE, "google.type.TimeOfDay": TIME}
LOGICAL_NAMES = "org.apache.kafka.connect.data."
JSON_LOGICAL = {"Timestamp": TIMESTAMP, "Date": DATE, "Time": TIME}
JSON_CONNECT = {  # kinds and Connect's types that say more than they
    ("integer", "int8"): INTEGER,
    ("integer", "int16"): INTEGER,
    ("integer", "int32"): INTEGER,
    ("string", "bytes"): BYTES,
}
JSON = {"boolean": BOOLEAN, "integer": BIGINT, "number": DOUBLE, "string": STRING}


def columns_from_registry(
    subject: str, settings: dict[str, Any], role: str, schema_id: Any = None, message: Any = None
) -> list[SourceColumn]:
    """Of the schema with this id, with names as it has them, or else of the subject's latest. `message` names one of
    a Protobuf schema's."""
    from barnabas.client.serdes import RegistryRefused, RegistryUnreachable, shared_registry

    url = settings.get("ksql.schema.registry.url")
    if not url:
        raise SqlError("Columns can't be inferred without a schema registry: set ksql.schema.registry.url.")
    try:
        registry = shared_registry(str(url))
        schema = registry.latest(subject).schema if schema_id is None else registry.by_id(int(schema_id)).schema
    except RegistryRefused as error:
        raise SqlError(f"Schema for message {role.lower()}s on subject '{subject}' can't be read: {error}") from None
    except RegistryUnreachable as error:
        raise SqlError(f"The schema registry at {url} can't be reached: {error}") from None
    if schema.type == "AVRO":
        kind = avro_kind(json.loads(schema.text), {})
    elif schema.type == "JSON":
        kind = json_kind(json.loads(schema.text))
    else:
        kind = protobuf_kind(schema, None if message is None else str(message))
    if kind.base != "STRUCT" or (role == "KEY" and schema.type != "PROTOBUF"):  # keys are not wrapped
        return [SourceColumn("ROWKEY" if role == "KEY" else "ROWVAL", kind, role)]
    return [SourceColumn(name if schema_id is not None else name.upper(), one, role) for name, one in kind.fields]


def avro_kind(tree: Any, named: dict[str, Any]) -> SqlType:
    """Unions of several types are a STRUCT with a field for each."""
    if isinstance(tree, list):
        others = [one for one in tree if one != "null"]
        if len(others) == 1:
            return avro_kind(others[0], named)
        return struct(*((branch_name(one).upper(), avro_kind(one, named)) for one in others))
    if isinstance(tree, str):
        return AVRO[tree] if tree in AVRO else avro_kind(named[tree], named)
    if tree.get("name"):
        named[tree["name"]] = tree
        if tree.get("namespace"):
            named[f"{tree['namespace']}.{tree['name']}"] = tree
    logical = tree.get("logicalType")
    if logical in LOGICAL:
        return LOGICAL[logical]
    if logical == "decimal":
        return decimal(int(tree["precision"]), int(tree.get("scale", 0)))
    kind = tree["type"]
    if kind == "record":
        return struct(*((one["name"].upper(), avro_kind(one["type"], named)) for one in tree["fields"]))
    if kind == "array":
        return array(avro_kind(tree["items"], named))
    if kind == "map":
        return map_of(STRING, avro_kind(tree["values"], named))
    return avro_kind(kind, named)


def protobuf_kind(schema: Any, message: str | None) -> SqlType:
    """Of the message with this name, or of the first."""
    from barnabas.client.serdes import SerdeError
    from barnabas.client.serdes.protobuf import ProtobufFile

    try:
        return message_kind(ProtobufFile(schema).codec(message or "").descriptor, ())
    except SerdeError as error:
        raise SqlError(str(error)) from None


def message_kind(message: Any, around: tuple[str, ...]) -> SqlType:
    if message.full_name in around:
        raise SqlError(f"Message {message.full_name} holds itself: name the columns in the statement.")
    inside = (*around, message.full_name)
    return struct(*((one.name.upper(), field_kind(one, inside)) for one in message.fields))


def field_kind(field: Any, around: tuple[str, ...]) -> SqlType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        parts = message.fields_by_name
        return map_of(field_kind(parts["key"], around), field_kind(parts["value"], around))
    if message is None:
        kind = PROTOBUF[field.cpp_type]
        if field.type == field.TYPE_BYTES:
            kind = BYTES
    elif message.full_name in MESSAGES:
        kind = MESSAGES[message.full_name]
    elif message.full_name.startswith("google.protobuf.") and message.full_name.endswith("Value"):
        kind = field_kind(message.fields_by_name["value"], around)
    else:
        kind = message_kind(message, around)
    return array(kind) if field.is_repeated else kind


def branch_name(tree: Any) -> str:
    if isinstance(tree, str):
        return tree.rpartition(".")[2]
    return str(tree.get("name") or tree["type"])


def json_kind(tree: Any) -> SqlType:
    for choice in tree.get("oneOf") or tree.get("anyOf") or ():
        if choice.get("type") != "null":
            return json_kind(choice)
    kind = tree.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    if kind == "object":
        if "properties" not in tree and isinstance(tree.get("additionalProperties"), dict):
            return map_of(STRING, json_kind(tree["additionalProperties"]))
        return struct(*((name.upper(), json_kind(one)) for name, one in tree.get("properties", {}).items()))
    if kind == "array":
        return array(json_kind(tree.get("items", {"type": "string"})))
    title, connect = str(tree.get("title", "")), str(tree.get("connect.type", ""))
    if title == f"{LOGICAL_NAMES}Decimal":
        parameters = tree.get("connect.parameters", {})
        return decimal(int(parameters.get("connect.decimal.precision", 64)), int(parameters.get("scale", 0)))
    if title.startswith(LOGICAL_NAMES) and title.removeprefix(LOGICAL_NAMES) in JSON_LOGICAL:
        return JSON_LOGICAL[title.removeprefix(LOGICAL_NAMES)]
    return JSON_CONNECT.get((str(kind), connect)) or JSON.get(str(kind), STRING)
