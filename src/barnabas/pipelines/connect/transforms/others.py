"""Transformations of topics, headers, schemas and times; Filter and Confluent's Drop."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from barnabas.pipelines.connect.config import (
    Definition,
    Setting,
    distinct,
    java_regex,
    java_replacement,
    one_of,
    regex,
)
from barnabas.pipelines.connect.data.date_format import DateFormat
from barnabas.pipelines.connect.data.header_values import parse
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import (
    DATE,
    DATE_SCHEMA,
    DAY_MS,
    INT64,
    STRING,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    Type,
    from_ms,
    java_class,
    struct,
    to_ms,
)
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, DataError
from barnabas.pipelines.connect.transforms.transformation import (
    REPLACE_NULL,
    Transformation,
    basics,
    require_fields,
    require_map,
    require_struct,
)


class Filter(Transformation):
    doc = "Drops all records, filtering them from subsequent transformations in the chain."

    def apply(self, record: Record) -> None:
        return None


class Drop(Transformation):
    """Confluent's: the key or value becomes null."""

    doc = "Drop a key or value from a record and set it to null."
    sided = True
    definition = Definition(
        [
            Setting(
                "schema.behavior",
                "STRING",
                "nullify",
                "MEDIUM",
                "How to handle non-null schemas: nullify, retain, validate or force_optional.",
                check=one_of("nullify", "retain", "validate", "force_optional", ignore_case=True),
            )
        ]
    )

    def apply(self, record: Record) -> Record:
        schema, _ = self.operating(record)
        behaviour = self.values["schema.behavior"].lower()
        if behaviour == "nullify" or schema is None:
            return self.changed(record, None, None)
        if behaviour == "validate" and not schema.optional:
            raise DataError(f"The {(self.side or 'Value').lower()} schema is not optional, so it cannot be dropped.")
        return self.changed(record, schema.as_optional() if behaviour == "force_optional" else schema, None)


class RegexRouter(Transformation):
    doc = "Update the record topic using the configured regular expression and replacement string."
    definition = Definition(
        [
            Setting("regex", doc="Regular expression to use for matching.", check=regex),
            Setting("replacement", doc="Replacement string."),
        ]
    )

    def configure(self) -> None:
        self._regex = re.compile(java_regex(self.values["regex"]))
        self._replacement = java_replacement(self.values["replacement"])

    def apply(self, record: Record) -> Record:
        if not self._regex.fullmatch(record.topic):
            return record
        return record.but(topic=self._regex.sub(self._replacement, record.topic, count=1))


class TimestampRouter(Transformation):
    doc = "Update the record's topic field as a function of the original topic value and the record timestamp."
    definition = Definition(
        [
            Setting("topic.format", "STRING", "${topic}-${timestamp}", doc="Format of the new topic."),
            Setting("timestamp.format", "STRING", "yyyyMMdd", doc="A format of java.text.SimpleDateFormat."),
        ]
    )

    def configure(self) -> None:
        try:
            self._format = DateFormat(self.values["timestamp.format"])
        except ValueError as error:
            raise ConfigError(str(error), "timestamp.format", self.values["timestamp.format"]) from None

    def apply(self, record: Record) -> Record:
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        time = self._format.format(from_ms(record.timestamp))
        topic = self.values["topic.format"].replace("${topic}", record.topic).replace("${timestamp}", time)
        return record.but(topic=topic)


class InsertHeader(Transformation):
    doc = "Add a header to each record."
    definition = Definition(
        [
            Setting("header", doc="The name of the header."),
            Setting("value.literal", doc="The literal value that is to be set as the header value on all records."),
        ]
    )

    def configure(self) -> None:
        self._header = Header(self.values["header"], *reversed(parse(self.values["value.literal"])))

    def apply(self, record: Record) -> Record:
        return record.but(headers=(*record.headers, self._header))


class DropHeaders(Transformation):
    doc = "Removes one or more headers from each record."
    definition = Definition([Setting("headers", "LIST", doc="The name of the headers to be removed.", check=distinct)])

    def apply(self, record: Record) -> Record:
        return record.but(headers=tuple(each for each in record.headers if each.key not in self.values["headers"]))


class SetSchemaMetadata(Transformation):
    doc = "Set the schema name, version or both on the record's key or value schema."
    sided = True
    definition = Definition(
        [
            Setting("schema.name", "STRING", None, doc="Schema name to set."),
            Setting("schema.version", "INT", None, doc="Schema version to set."),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        if self.values["schema.name"] is None and self.values["schema.version"] is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        if schema is None and value is None:
            return record
        if schema is None:
            raise DataError("Schema required for [updating schema metadata]")
        require_fields(schema)  # Connect knows no other schemas here
        updated = self.updated_schema(schema)
        if isinstance(value, Struct):
            value = Struct(updated, {each.name: self.read(value, each.name) for each in updated.fields})
        return self.changed(record, updated, value)

    def make_schema(self, schema: Schema) -> Schema:
        name, version = self.values["schema.name"], self.values["schema.version"]
        return schema.but(
            name=schema.name if name is None else name, version=schema.version if version is None else version
        )


PER_MS = {"seconds": (1, 1_000), "milliseconds": (1, 1), "microseconds": (1_000, 1), "nanoseconds": (1_000_000, 1)}
TARGETS = {"string": STRING, "unix": INT64, "Date": DATE_SCHEMA, "Time": TIME_SCHEMA, "Timestamp": TIMESTAMP_SCHEMA}
NAMED = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}


class TimestampConverter(Transformation):
    doc = "Convert timestamps between different formats such as Unix epoch, strings, and Connect Date/Timestamp types."
    sided = True
    definition = Definition(
        [
            Setting("field", "STRING", "", doc="The field containing the timestamp, or empty for the entire value."),
            Setting("target.type", doc="string, unix, Date, Time, or Timestamp", check=one_of(*TARGETS)),
            Setting("format", "STRING", "", "MEDIUM", "A SimpleDateFormat-compatible format for the timestamp."),
            Setting("unix.precision", "STRING", "milliseconds", "LOW", check=one_of(*PER_MS)),
            REPLACE_NULL,
        ]
    )

    def configure(self) -> None:
        pattern = self.values["format"]
        if self.values["target.type"] == "string" and not pattern.strip():
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        try:
            self._format = DateFormat(pattern) if pattern.strip() else None
        except ValueError:
            raise ConfigError(
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: " + pattern
            ) from None

    def apply(self, record: Record) -> Record:
        schema, value = self.operating(record)
        name = self.values["field"]
        if schema is None:
            if value is None or not name:
                return self.changed(record, None, self._converted(value, None))
            given = require_map(value, "converting timestamp formats")
            return self.changed(record, None, given | {name: self._converted(given.get(name), None)})
        if not name:
            target = TARGETS[self.values["target.type"]].but(optional=schema.optional)
            return self.changed(record, target, self._converted(value, timestamp_type(schema)))
        updated = self.updated_schema(schema)
        given_struct = None if value is None else require_struct(value, "converting timestamp formats")
        return self.changed(record, updated, self._struct(given_struct, updated))

    def make_schema(self, schema: Schema) -> Schema:
        target = TARGETS[self.values["target.type"]]
        require_fields(schema)
        fields = [
            (each.name, target.but(optional=each.schema.optional) if each.name == self.values["field"] else each.schema)
            for each in schema.fields
        ]
        made = struct(fields, optional=schema.optional, **basics(schema))
        return made if schema.default is None else made.but(default=self._struct(schema.default, made))

    def _struct(self, value: Struct | None, schema: Schema) -> Struct | None:
        if value is None:
            return None
        made = Struct(schema)
        for each in value.schema.fields:
            found = self.read(value, each.name)
            if each.name == self.values["field"]:
                found = self._converted(found, timestamp_type(each.schema))
            made.put(each.name, found)
        return made

    def _converted(self, value: Any, kind: str | None) -> Any:
        if value is None:
            return None
        return self._target(self._raw(value, kind or inferred_type(value)))

    def _raw(self, value: Any, kind: str) -> datetime:
        if kind == "string":
            if not isinstance(value, str):
                raise DataError(f"Expected string timestamp to be a String, but found class {java_class(value)}")
            found = None if self._format is None else self._format.parse(value)
            if found is None:
                pattern = self.values["format"]
                raise DataError(f"Could not parse timestamp: value ({value}) does not match pattern ({pattern})")
            return found
        if kind == "unix":
            if not isinstance(value, int):
                raise DataError(f"Expected Unix timestamp to be a Long, but found class {java_class(value)}")
            times, per = PER_MS[self.values["unix.precision"]]
            return from_ms(_towards_zero(value, times) * per)
        if not isinstance(value, datetime):
            raise DataError(f"Expected {kind} to be a java.util.Date, but found class {java_class(value)}")
        return value

    def _target(self, time: datetime) -> Any:
        kind = self.values["target.type"]
        if kind == "string":
            assert self._format is not None
            return self._format.format(time)
        milliseconds = to_ms(time)
        if kind == "unix":
            times, per = PER_MS[self.values["unix.precision"]]
            return _towards_zero(milliseconds, per) * times
        if kind == "Date":
            return from_ms(milliseconds - milliseconds % DAY_MS)
        return from_ms(milliseconds % DAY_MS) if kind == "Time" else time


def _towards_zero(value: int, divisor: int) -> int:
    return abs(value) // divisor * (1 if value >= 0 else -1)


def timestamp_type(schema: Schema) -> str:
    if schema.name in NAMED:
        return NAMED[schema.name]
    if schema.type in (Type.STRING, Type.INT64):
        return "string" if schema.type is Type.STRING else "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def inferred_type(value: Any) -> str:
    if isinstance(value, datetime):
        return "Timestamp"
    if isinstance(value, int) and not isinstance(value, bool):
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")
