"""Transformations that choose, rename, add, mask and nest fields."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from barnabas.pipelines.connect.config import Definition, Setting, distinct, one_of
from barnabas.pipelines.connect.data.field_path import FieldPath
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import (
    EPOCH,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    TIMESTAMP_SCHEMA,
    Float32,
    Schema,
    Struct,
    Type,
    from_ms,
    java_class,
    single,
    struct,
    type_of,
)
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, DataError
from barnabas.pipelines.connect.transforms.transformation import (
    REPLACE_NULL,
    Transformation,
    basics,
    require_map,
    require_struct,
)


class ReplaceField(Transformation):
    doc = "Filter or rename fields."
    sided = True
    definition = Definition(
        [
            Setting("exclude", "LIST", [], "MEDIUM", "Fields to exclude. This takes precedence over include."),
            Setting(
                "include", "LIST", [], "MEDIUM", "Fields to include. If specified, only these fields will be used."
            ),
            Setting("renames", "LIST", [], "MEDIUM", "Field rename mappings."),
            Setting("blacklist", "LIST", None, "LOW", "Deprecated. Use exclude instead."),
            Setting("whitelist", "LIST", None, "LOW", "Deprecated. Use include instead."),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        self._exclude = frozenset(self.values["exclude"] or self.values["blacklist"] or ())
        self._include = frozenset(self.values["include"] or self.values["whitelist"] or ())
        self._renames: dict[str, str] = {}
        for mapping in self.values["renames"]:
            parts = mapping.split(":")
            if len(parts) != 2:
                raise ConfigError(f"Invalid rename mapping: {mapping}", "renames", self.values["renames"])
            self._renames[parts[0]] = parts[1]
        self._back = {new: old for old, new in self._renames.items()}

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if value is None:
            return record
        if schema is None:
            given = require_map(value, "field replacement")
            kept = {self._renames.get(name, name): each for name, each in given.items() if self._wanted(name)}
            return self.changed(record, None, kept)
        given_struct = require_struct(value, "field replacement")
        updated = self.updated_schema(given_struct.schema)
        made = Struct(updated)
        for each in updated.fields:
            made.put(each.name, self.read(given_struct, self._back.get(each.name, each.name)))
        return self.changed(record, updated, made)

    def make_schema(self, schema: Schema) -> Schema:
        fields = [
            (self._renames.get(each.name, each.name), each.schema) for each in schema.fields if self._wanted(each.name)
        ]
        return struct(fields, **basics(schema))

    def _wanted(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)


class Insertion(NamedTuple):
    name: str
    optional: bool

    @classmethod
    def parse(cls, text: str | None) -> Insertion | None:
        if text is None:
            return None
        return cls(text[:-1], text[-1] == "?") if text[-1:] in ("?", "!") else cls(text, True)


class InsertField(Transformation):
    doc = "Insert field(s) using attributes from the record metadata or a configured static value."
    sided = True
    definition = Definition(
        [
            *(Setting(name, "STRING", None, "MEDIUM", doc) for name, doc in (
                ("topic.field", "Field name for Kafka topic."),
                ("partition.field", "Field name for Kafka partition."),
                ("offset.field", "Field name for Kafka offset - only applicable to sink connectors."),
                ("timestamp.field", "Field name for record timestamp."),
                ("static.field", "Field name for static data field."),
                ("static.value", "Static field value, if field name configured."),
            )),
            REPLACE_NULL,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        names = ("topic", "partition", "offset", "timestamp", "static")
        parsed = {name: Insertion.parse(self.values[f"{name}.field"]) for name in names}
        self._fields = {name: each for name, each in parsed.items() if each is not None}
        if not self._fields:
            raise ConfigError("No field insertion configured")
        if "static" in self._fields and self.values["static.value"] is None:
            raise ConfigError("No value specified for static field", "static.value", None)

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if value is None:
            return record
        inserted = self._inserted(record)
        if schema is None:
            given = require_map(value, "field insertion")
            return self.changed(record, None, given | inserted)
        given_struct = require_struct(value, "field insertion")
        updated = self.updated_schema(given_struct.schema)
        made = Struct(updated)
        for each in given_struct.schema.fields:
            made.put(each.name, self.read(given_struct, each.name))
        for name, each in inserted.items():
            is_time = "timestamp" in self._fields and name == self._fields["timestamp"].name
            made.put(name, from_ms(each) if is_time else each)
        return self.changed(record, updated, made)

    def _inserted(self, record: Record) -> dict[str, Any]:
        if "offset" in self._fields and not record.is_sink:
            raise DataError(
                "Only SinkRecord supported for [field insertion], found: org.apache.kafka.connect.source.SourceRecord"
            )
        values = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "static": self.values["static.value"],
        }
        found = {each.name: values[kind] for kind, each in self._fields.items()}
        missing = {self._fields[kind].name for kind in ("partition", "timestamp") if kind in self._fields}
        return {name: value for name, value in found.items() if value is not None or name not in missing}

    def make_schema(self, schema: Schema) -> Schema:
        kinds = {
            "topic": OPTIONAL_STRING,
            "partition": OPTIONAL_INT32,
            "offset": OPTIONAL_INT64,
            "timestamp": TIMESTAMP_SCHEMA.as_optional(),
            "static": OPTIONAL_STRING,
        }
        new = [(each.name, kinds[kind].but(optional=each.optional)) for kind, each in self._fields.items()]
        return struct([*((each.name, each.schema) for each in schema.fields), *new], **basics(schema))


class MaskField(Transformation):
    doc = "Mask specified fields with a valid null value for the field type (i.e. 0, false, empty string, and so on)."
    sided = True
    definition = Definition(
        [
            Setting("fields", "LIST", doc="Names of fields to mask.", check=distinct),
            Setting("replacement", "STRING", None, "LOW", "Custom value replacement."),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        if self.values["replacement"] == "":
            raise ConfigError("String must be non-empty", "replacement", "")

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        names = self.values["fields"]
        if schema is None:
            given = require_map(value, "mask fields")
            return self.changed(record, None, given | {name: self._masked(given.get(name)) for name in names})
        given_struct = require_struct(value, "mask fields")
        made = Struct(given_struct.schema)
        for each in given_struct.schema.fields:
            found = self.read(given_struct, each.name)
            made.put(each.name, self._masked(found, each.schema) if each.name in names else found)
        return self.changed(record, schema, made)

    def _masked(self, value: Any, schema: Schema | None = None) -> Any:
        if value is None:
            return None
        replacement = self.values["replacement"]
        return null_value(value) if replacement is None else self._replaced(value, replacement)

    @staticmethod
    def _replaced(value: Any, replacement: str) -> Any:
        kinds: dict[type, Callable[[str], Any]] = {
            str: str,
            int: int,
            float: float,
            Float32: lambda text: single(float(text)),
        }
        convert = kinds.get(type(value))
        if isinstance(value, decimal.Decimal):
            convert = decimal.Decimal
        if convert is None:
            raise DataError(f"Cannot mask value of type class {java_class(value)} with custom replacement.")
        try:
            return convert(replacement)
        except (ValueError, decimal.InvalidOperation):
            raise DataError(f"Unable to convert {replacement} (class java.lang.String) to number") from None


def null_value(value: Any) -> Any:
    if isinstance(value, bool):
        return False
    if isinstance(value, datetime):
        return EPOCH
    for kind in (int, Float32, float, str, list, dict, decimal.Decimal):
        if isinstance(value, kind):
            return kind()
    raise DataError(f"Cannot mask value of type: class {java_class(value)}")


class HoistField(Transformation):
    doc = "Wrap data using the specified field name in a Struct when schema present, or a Map without one."
    sided = True
    definition = Definition(
        [Setting("field", importance="MEDIUM", doc="Field name for the single field that will be created.")]
    )

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        name = self.values["field"]
        if schema is None:
            return self.changed(record, None, {name: value})
        updated = self.updated_schema(schema)
        return self.changed(record, updated, Struct(updated, {name: value}))

    def make_schema(self, schema: Schema) -> Schema:
        return struct([(self.values["field"], schema)])


class ExtractField(Transformation):
    doc = "Extract the specified field from a Struct when schema present, or a Map in the case of schemaless data."
    sided = True
    definition = Definition(
        [
            Setting("field", importance="MEDIUM", doc="Field name to extract."),
            Setting("field.syntax.version", "STRING", "V1", check=one_of("V1", "V2", ignore_case=True)),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        self._path = FieldPath(self.values["field"], nested=self.values["field.syntax.version"].upper() == "V2")

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if schema is None:
            given = None if value is None else require_map(value, "field extraction")
            return self.changed(record, None, None if given is None else self._path.in_map(given))
        given_struct = None if value is None else require_struct(value, "field extraction")
        field = self._path.in_schema(schema)
        if field is None:
            raise UnknownField(f"Unknown field: {self.values['field']}")
        found = None if given_struct is None else self._path.in_struct(given_struct, with_default=self.defaults)
        return self.changed(record, field.schema, found)


class UnknownField(ConnectError):
    java_class = "java.lang.IllegalArgumentException"


class ValueToKey(Transformation):
    doc = "Replace the record key with a new key formed from a subset of fields in the record value."
    definition = Definition(
        [
            Setting(
                "fields", "LIST", doc="Field names on the record value to extract as the record key.", check=distinct
            ),
            REPLACE_NULL,
        ]
    )

    def apply(self, record: Record) -> Record:
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            given = require_map(record.value, purpose)
            return record.but(key_schema=None, key={name: given.get(name) for name in self.values["fields"]})
        value = require_struct(record.value, purpose)
        schema = self.updated_schema(value.schema)
        key = Struct(schema)
        for name in self.values["fields"]:
            key.put(name, self.read(value, name))
        return record.but(key_schema=schema, key=key, value_schema=value.schema)

    def make_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self.values["fields"]:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append((name, field.schema))
        return struct(fields)


class HeaderFrom(Transformation):
    doc = "Moves or copies fields in the key/value of a record into that record's headers."
    sided = True
    definition = Definition(
        [
            Setting(
                "fields", "LIST", doc="Field names in the record whose values are to be copied or moved to headers."
            ),
            Setting("headers", "LIST", doc="Header names, in the same order as the field names."),
            Setting("operation", doc="Either move or copy.", check=one_of("move", "copy")),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        for name in ("fields", "headers"):
            if not self.values[name]:
                raise ConfigError("Empty list", name, "[]")
        if len(self.values["fields"]) != len(self.values["headers"]):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._moves = self.values["operation"] == "move"

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        purpose = f"header {self.values['operation']}"
        pairs = list(zip(self.values["fields"], self.values["headers"], strict=True))
        if schema is None:
            given = require_map(value, purpose)
            added = tuple(Header(header, given.get(name)) for name, header in pairs)
            kept = {name: each for name, each in given.items() if not self._moves or name not in self.values["fields"]}
            return self.changed(record, None, kept, record.headers + added)
        given_struct = require_struct(value, purpose)
        headers = []
        for name, header in pairs:
            field = schema.field(name)
            if field is None:
                raise MissingField(f"field {name} is not in the schema")
            headers.append(Header(header, self.read(given_struct, name), field.schema))
        if self._moves:
            updated = self.updated_schema(schema)
            made = Struct(updated, {each.name: self.read(given_struct, each.name) for each in updated.fields})
            return self.changed(record, updated, made, (*record.headers, *headers))
        return self.changed(record, schema, value, (*record.headers, *headers))

    def make_schema(self, schema: Schema) -> Schema:
        kept = [(each.name, each.schema) for each in schema.fields if each.name not in self.values["fields"]]
        return struct(kept, **basics(schema))


class MissingField(ConnectError):
    java_class = "java.lang.NullPointerException"


class Flatten(Transformation):
    doc = "Flatten a nested data structure, generating names for each field by concatenating those of each level."
    sided = True
    definition = Definition([Setting("delimiter", "STRING", ".", "MEDIUM", "Delimiter to insert between field names.")])

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, "flattening"), "", flat)
            return self.changed(record, None, flat)
        given = require_struct(value, "flattening")
        updated = self.updated_schema(schema)
        made = Struct(updated)
        self._flatten_struct(given, "", made)
        return self.changed(record, updated, made)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.values['delimiter']}{name}" if prefix else name

    def _flatten_map(self, given: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for name, value in given.items():
            full = self._name(prefix, name)
            if isinstance(value, dict):
                self._flatten_map(value, full, flat)
                continue
            if value is not None and type_of(value) is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {java_class(value)} which is not "
                    "supported by Connect's data API"
                )
            if isinstance(value, Struct):
                raise DataError(
                    f"Flatten transformation does not support class {java_class(value)} for record without schemas "
                    f"(for field {full})."
                )
            flat[full] = value

    def make_schema(self, schema: Schema) -> Schema:
        fields: list[tuple[str, Schema]] = []
        self._flatten_schema(schema, "", fields, schema.optional, schema.default)
        return struct(fields, **basics(schema))

    def _flatten_schema(
        self, schema: Schema, prefix: str, fields: list[tuple[str, Schema]], optional: bool, default: Struct | None
    ) -> None:
        for each in schema.fields:
            full = self._name(prefix, each.name)
            own_default = each.schema.default
            if own_default is None and default is not None:
                own_default = default.get(each.name)
            may_miss = optional or each.schema.optional
            if each.schema.type is Type.STRUCT:
                self._flatten_schema(each.schema, full, fields, may_miss, own_default)
            elif each.schema.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {full})."
                )
            else:
                fields.append((full, each.schema.but(optional=may_miss, default=own_default)))

    def _flatten_struct(self, given: Struct | None, prefix: str, made: Struct) -> None:
        if given is None:
            return
        for each in given.schema.fields:
            full = self._name(prefix, each.name)
            if each.schema.type is Type.STRUCT:
                self._flatten_struct(given.get(each.name), full, made)
            else:
                made.put(full, given.get(each.name))
