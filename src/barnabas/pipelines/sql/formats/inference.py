"""Columns from the schema of a subject, where CREATE names none. Names are upper case, as those of statements; those of
a schema that is named by its id are as it spells them, and statements quote them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
DECIMAL_PRECISION = 64  # where a schema tells none, as Connect has it
Parameters = dict[str, dict[str, str]]  # of fields, by their full names
JSON = {"boolean": BOOLEAN, "integer": BIGINT, "number": DOUBLE, "string": STRING}


def columns_from_registry(
    subject: str,
    settings: dict[str, Any],
    role: str,
    schema_id: Any = None,
    message: Any = None,
    *,
    whole: bool = False,
) -> list[SourceColumn]:
    """Of the schema with this id, with names as it has them, or else of the subject's latest. `message` names one of
    a Protobuf schema's. A record is one column if it is taken as a `whole`."""
    from barnabas.client.serdes import RegistryRefused, RegistryUnreachable, shared_registry

    url = settings.get("ksql.schema.registry.url")
    if not url:
        raise SqlError("Columns can't be inferred without a schema registry: set ksql.schema.registry.url.")
    try:
        registry = shared_registry(str(url))
        schema = registry.latest(subject).schema if schema_id is None else registry.by_id(int(schema_id)).schema
        references = registry.resolved(schema)
    except RegistryRefused as error:
        raise SqlError(f"Schema for message {role.lower()}s on subject '{subject}' can't be read: {error}") from None
    except RegistryUnreachable as error:
        raise SqlError(f"The schema registry at {url} can't be reached: {error}") from None
    kind = kind_of(schema, references, None if message is None else str(message))
    if schema_id is None:
        kind = upper_case(kind)
    if kind.base != "STRUCT" or (schema.type != "PROTOBUF" and (whole or role == "KEY")):  # keys are not wrapped
        return [SourceColumn("ROWKEY" if role == "KEY" else "ROWVAL", kind, role)]
    return [SourceColumn(name, one, role) for name, one in kind.fields]


def upper_case(kind: SqlType) -> SqlType:
    """With the fields of all STRUCTs in upper case."""
    inner = None if kind.element is None else upper_case(kind.element)
    return replace(kind, element=inner, fields=tuple((name.upper(), upper_case(one)) for name, one in kind.fields))


def kind_of(schema: Any, references: Sequence[Any], message: str | None) -> SqlType:
    """The type that a schema describes, with what it refers to."""
    from barnabas.client.schemas import InvalidSchema
    from barnabas.client.schemas.avro.schema import AvroSchema

    if schema.type == "PROTOBUF":
        return protobuf_kind(schema, references, message)
    if schema.type == "JSON":
        texts = {one.name: json.loads(one.text) for one in references}
        return json_kind(json.loads(schema.text), JsonPlaces(json.loads(schema.text), texts))
    try:
        return avro_kind(json.loads(AvroSchema(schema.text, references, is_new=False).formatted("resolved")), {})
    except InvalidSchema as error:
        raise SqlError(f"The Avro schema is not valid: {error}") from None


def avro_kind(tree: Any, named: dict[str, Any]) -> SqlType:
    """Unions of several types are a STRUCT with a field for each."""
    if isinstance(tree, list):
        others = [one for one in tree if one != "null"]
        if len(others) == 1:
            return avro_kind(others[0], named)
        return struct(*((branch_name(one), avro_kind(one, named)) for one in others))
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
        return struct(*((one["name"], avro_kind(one["type"], named)) for one in tree["fields"]))
    if kind == "array":
        return array(avro_kind(tree["items"], named))
    if kind == "map":
        return map_of(STRING, avro_kind(tree["values"], named))
    return avro_kind(kind, named)


def protobuf_kind(schema: Any, references: Sequence[Any], message: str | None) -> SqlType:
    """Of the message with this name, or of the first."""
    from barnabas.client.schemas.protobuf.parameters import field_parameters
    from barnabas.client.serdes import SerdeError
    from barnabas.client.serdes.protobuf import ProtobufFile

    try:
        descriptor = ProtobufFile(schema, references).codec(message or "").descriptor
    except SerdeError as error:
        raise SqlError(str(error)) from None
    parameters: Parameters = {}
    for text in (schema.text, *(one.text for one in references)):
        parameters |= field_parameters(text)
    return message_kind(descriptor, (), parameters)


def message_kind(message: Any, around: tuple[str, ...], parameters: Parameters) -> SqlType:
    if message.full_name in around:
        raise SqlError(f"Message {message.full_name} holds itself: name the columns in the statement.")
    inside = (*around, message.full_name)
    return struct(*((one.name, field_kind(one, inside, parameters)) for one in message.fields))


def field_kind(field: Any, around: tuple[str, ...], parameters: Parameters) -> SqlType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        parts = message.fields_by_name
        return map_of(*(field_kind(parts[one], around, parameters) for one in ("key", "value")))
    if message is None:
        kind = PROTOBUF[field.cpp_type]
        if field.type == field.TYPE_BYTES:
            kind = BYTES
    elif message.full_name == "confluent.type.Decimal":
        given = parameters.get(field.full_name, {})
        kind = decimal(int(given.get("precision", DECIMAL_PRECISION)), int(given.get("scale", 0)))
    elif message.full_name in MESSAGES:
        kind = MESSAGES[message.full_name]
    elif message.full_name.startswith("google.protobuf.") and message.full_name.endswith("Value"):
        kind = field_kind(message.fields_by_name["value"], around, parameters)
    else:
        kind = message_kind(message, around, parameters)
    return array(kind) if field.is_repeated else kind


def branch_name(tree: Any) -> str:
    if isinstance(tree, str):
        return tree.rpartition(".")[2]
    return str(tree.get("name") or tree["type"])


class JsonPlaces:
    """Where the references of a JSON schema lead: to a place in the same file, or in another one."""

    def __init__(self, root: Any, others: dict[str, Any], around: tuple[str, ...] = ()) -> None:
        self.root, self.others, self.around = root, others, around

    def found(self, reference: str) -> tuple[Any, JsonPlaces]:
        if reference in self.around:
            raise SqlError(f"The JSON schema holds itself at {reference}: name the columns in the statement.")
        name, _, path = reference.partition("#")
        tree = root = self.others.get(name) if name else self.root
        for part in filter(None, path.split("/")):
            tree = tree.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(tree, dict) else None
        if not isinstance(tree, dict):
            raise SqlError(f"The JSON schema refers to {reference}, which is not there.")
        return tree, JsonPlaces(root, self.others, (*self.around, reference))


NO_PLACES = JsonPlaces({}, {})


def json_kind(tree: Any, places: JsonPlaces = NO_PLACES) -> SqlType:
    if "$ref" in tree:
        return json_kind(*places.found(str(tree["$ref"])))
    for choice in tree.get("oneOf") or tree.get("anyOf") or ():
        if choice.get("type") != "null":
            return json_kind(choice, places)
    kind = tree.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    if kind == "object":
        if "properties" not in tree and isinstance(tree.get("additionalProperties"), dict):
            return map_of(STRING, json_kind(tree["additionalProperties"], places))
        return struct(*((name, json_kind(one, places)) for name, one in tree.get("properties", {}).items()))
    if kind == "array":
        return array(json_kind(tree.get("items", {"type": "string"}), places))
    title, connect = str(tree.get("title", "")), str(tree.get("connect.type", ""))
    if title == f"{LOGICAL_NAMES}Decimal":
        parameters = tree.get("connect.parameters", {})
        return decimal(int(parameters.get("connect.decimal.precision", 64)), int(parameters.get("scale", 0)))
    if title.startswith(LOGICAL_NAMES) and title.removeprefix(LOGICAL_NAMES) in JSON_LOGICAL:
        return JSON_LOGICAL[title.removeprefix(LOGICAL_NAMES)]
    return JSON_CONNECT.get((str(kind), connect)) or JSON.get(str(kind), STRING)
