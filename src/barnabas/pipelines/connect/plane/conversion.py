"""A connector's converters and transformations: a topic's records to a sink's, and a source's to a topic's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from barnabas.client.records import ConsumerRecord
from barnabas.pipelines.connect.config import parse_value, with_prefix
from barnabas.pipelines.connect.converters.converter import ByteArrayConverter, Converter, StringConverter
from barnabas.pipelines.connect.data.header_values import write
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import Schema
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plane.tolerance import Raw, Skipped, Tolerance
from barnabas.pipelines.connect.plugins import make_converter, need
from barnabas.pipelines.connect.transforms.chain import make_chain

T = TypeVar("T")
Sent = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class Unexpected(ConnectError):
    """An exception that is no ConnectError: a mistake in a plugin, told like Java's runtime exceptions."""

    java_class = "java.lang.RuntimeException"


def converter_of(settings: Mapping[str, str], side: str, default: str | None = None) -> Converter:
    """`key.converter` with the settings that begin with `key.converter.`"""
    name = settings.get(side) or default
    if name is None:
        raise ConnectError(f"{side} is not set, neither by the connector nor by the worker")
    return make_converter(name, with_prefix(settings, f"{side}."), is_key=side == "key.converter")


class Conversion:
    def __init__(self, settings: Mapping[str, str], tolerance: Tolerance) -> None:
        self.key = converter_of(settings, "key.converter")
        self.value = converter_of(settings, "value.converter")
        self.header = converter_of(settings, "header.converter", SIMPLE_HEADERS)
        self.chain = make_chain(settings)
        self.tolerance = tolerance
        names = {side: settings.get(side) or SIMPLE_HEADERS for side in CONVERTERS}
        found = {side: need(name, "converter", "header_converter", setting=side) for side, name in names.items()}
        self._names = {side: plugin.name for side, plugin in found.items()}

    def from_topic(self, given: ConsumerRecord) -> Record | None:
        """None if a transformation dropped it, or if it is skipped."""
        try:
            return self._plainly_from(given)
        except Exception:
            pass
        return self._from_topic(given)  # again, step by step: `errors.*` ask which one failed

    def _plainly_from(self, given: ConsumerRecord) -> Record | None:
        topic, partition, offset, timestamp, _, key, value, headers, _ = given
        key_schema, key = self.key.to_connect(topic, key)
        value_schema, value = self.value.to_connect(topic, value)
        record: Record | None = Record(
            topic,
            value,
            value_schema,
            key,
            key_schema,
            partition,
            timestamp if timestamp >= 0 else None,
            self._headers(given) if headers else (),
            offset,
            original=(topic, partition, offset),
        )
        for link in self.chain:
            if record is None:
                return None
            record = link.apply(record)
        return record

    def _from_topic(self, given: ConsumerRecord) -> Record | None:
        place = given.topic, given.partition, given.offset
        raw = Raw(given.key, given.value, tuple(given.headers), given.timestamp, place)
        try:
            key = self._step("KEY_CONVERTER", lambda: self.key.to_connect(given.topic, given.key), raw, "key.converter")
            value = self._step(
                "VALUE_CONVERTER", lambda: self.value.to_connect(given.topic, given.value), raw, "value.converter"
            )
            headers = self._step("HEADER_CONVERTER", lambda: self._headers(given), raw, "header.converter")
            record = Record(
                topic=given.topic,
                value=value.value,
                value_schema=value.schema,
                key=key.value,
                key_schema=key.schema,
                partition=given.partition,
                timestamp=given.timestamp if given.timestamp >= 0 else None,
                headers=headers,
                offset=given.offset,
                original=place,
            )
            return self.transformed(record, raw)
        except Skipped:
            return None

    def to_topic(self, record: Record) -> Sent | None:
        """Topic, key, value and headers; None if it is dropped or skipped."""
        try:
            return self._plainly_to(record)
        except Exception:
            pass
        return self._to_topic(record)  # again, step by step

    def _plainly_to(self, record: Record) -> Sent | None:
        done: Record | None = record
        for link in self.chain:
            if done is None:
                return None
            done = link.apply(done)
        if done is None:
            return None
        headers = self._header_bytes(done) if done.headers else []
        key = self.key.to_bytes(done.topic, done.key_schema, done.key)
        value = self.value.to_bytes(done.topic, done.value_schema, done.value)
        if done is not record:
            record.topic, record.partition, record.timestamp = done.topic, done.partition, done.timestamp
        return done.topic, key, value, headers

    def _to_topic(self, record: Record) -> Sent | None:
        raw = self.raw_of(record)
        try:
            found = self.transformed(record, raw)
            if found is None:
                return None
            done = found
            headers = self._step("HEADER_CONVERTER", lambda: self._header_bytes(done), raw, "header.converter")
            key = self._step(
                "KEY_CONVERTER", lambda: self.key.to_bytes(done.topic, done.key_schema, done.key), raw, "key.converter"
            )
            value = self._step(
                "VALUE_CONVERTER",
                lambda: self.value.to_bytes(done.topic, done.value_schema, done.value),
                raw,
                "value.converter",
            )
            record.topic, record.partition, record.timestamp = done.topic, done.partition, done.timestamp
            return done.topic, key, value, headers
        except Skipped:
            return None

    def column_writer(self, schema: Schema | None) -> Callable[[Any], Any] | None:
        """For values without keys; None if records are to be converted one by one."""
        if schema is None or self.chain or self.key.to_bytes("", None, None) is not None:
            return None
        return self.value.column_writer(schema)

    def column_reader(self, settings: Mapping[str, str]) -> Callable[[Any], Any] | None:
        """For values alone: keys and headers must be such that reading them cannot fail."""
        if self.chain or type(self.key) not in (StringConverter, ByteArrayConverter) or "header.converter" in settings:
            return None
        return self.value.column_reader()

    def transformed(self, record: Record, raw: Raw) -> Record | None:
        current: Record | None = record
        for link in self.chain:
            given = current
            if given is None:
                return None
            current = self._step("TRANSFORMATION", partial(link.apply, given), raw, link.type)
        return current

    def _step(self, stage: str, operation: Callable[[], T], raw: Raw, name: str) -> T:
        return self.tolerance.run(stage, operation, raw, self._names.get(name, name))

    def _headers(self, given: ConsumerRecord) -> tuple[Header, ...]:
        if not given.headers:
            return ()
        convert = self.header.header_to_connect
        return tuple(Header(name, *reversed(convert(given.topic, name, data))) for name, data in given.headers)

    def _header_bytes(self, record: Record) -> list[tuple[str, bytes | None]]:
        convert = self.header.header_to_bytes
        return [(each.key, convert(record.topic, each.key, each.schema, each.value)) for each in record.headers]

    @staticmethod
    def raw_of(record: Record) -> Raw:
        """A source's record has no bytes: a dead letter tells it as text."""
        return LazyRaw(None, None, (), record.timestamp, None, record)


class LazyRaw(Raw):
    """Texts are made only of records that fail."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in ("key", "value"):
            record: Record = object.__getattribute__(self, "record")
            found = getattr(record, name)
            return None if found is None else write(found).encode()
        return object.__getattribute__(self, name)


CONVERTERS = ("key.converter", "value.converter", "header.converter")


def tasks_max(settings: Mapping[str, str]) -> int:
    return int(parse_value("tasks.max", "INT", settings.get("tasks.max", "1")))
