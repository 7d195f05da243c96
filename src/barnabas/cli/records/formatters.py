"""How the console consumer prints records: Kafka's formatters by their class names, today's and those of older courses.

A formatter writes bytes: keys and values are printed as they are unless a deserializer turns them into text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from barnabas.cli.errors import UsageError
from barnabas.cli.records.deserializers import Deserializer, UnknownDeserializer, deserializer

if TYPE_CHECKING:
    from barnabas.wire.schema import Record

PROPERTIES = (
    "print.timestamp",
    "print.key",
    "print.offset",
    "print.epoch",
    "print.partition",
    "print.headers",
    "print.value",
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
    "key.deserializer",
    "value.deserializer",
    "headers.deserializer",
)
SCHEMA_FORMATTERS = ("AvroMessageFormatter", "JsonSchemaMessageFormatter", "ProtobufMessageFormatter")
TIMESTAMP_NAMES = ("CreateTime", "LogAppendTime")


class ConsumedRecord(Protocol):
    """What the client's consumers hand out."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Formatter = Callable[[ConsumedRecord, BinaryIO], None]


def formatter(name: str | None, properties: Mapping[str, str]) -> Formatter:
    short = (name or "DefaultMessageFormatter").replace("$", ".").rpartition(".")[2]
    if short == "DefaultMessageFormatter":
        return DefaultFormatter(properties).write
    if short == "LoggingMessageFormatter":
        return LoggingFormatter(properties).write
    if short == "NoOpMessageFormatter":
        return lambda record, out: None
    if short == "ChecksumMessageFormatter":
        raise UsageError("There are no checksums of single records any more: leave --formatter out.")
    if short in _COORDINATOR_FORMATTERS:
        return _COORDINATOR_FORMATTERS[short]
    if short in SCHEMA_FORMATTERS:
        from barnabas.cli.records.schema_records import schema_formatter

        return schema_formatter(properties)
    known = ", ".join(["DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter"])
    raise UsageError(f"There is no formatter {name}; there are {known}, {', '.join(_COORDINATOR_FORMATTERS)}.")


class DefaultFormatter:
    def __init__(self, properties: Mapping[str, str]) -> None:
        def wanted(name: str, default: bool = False) -> bool:
            return properties.get(name, str(default)).strip().lower() == "true"

        self._timestamp = wanted("print.timestamp")
        self._partition = wanted("print.partition")
        self._offset = wanted("print.offset")
        self._epoch = wanted("print.epoch")
        self._headers = wanted("print.headers")
        self._key = wanted("print.key")
        self._value = wanted("print.value", True)
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._read_key = _deserializer(properties, "key.deserializer")
        self._read_value = _deserializer(properties, "value.deserializer")
        self._read_header = _deserializer(properties, "headers.deserializer", "header.deserializer")
        self._only_value = self._value and not any(
            (self._timestamp, self._partition, self._offset, self._epoch, self._headers, self._key)
        )

    def write(self, record: ConsumedRecord, out: BinaryIO) -> None:
        if self._only_value:
            out.write(self._text(record.value, self._read_value) + self._line_end)
            return
        # What stands before a value that cannot be read is printed, as Kafka's formatter does.
        fields = self._before(record)
        if self._key:
            fields.append(self._text(record.key, self._read_key))
        if self._value:
            out.write(b"".join(field + self._separator for field in fields))
            out.write(self._text(record.value, self._read_value) + self._line_end)
        else:
            out.write(self._separator.join(fields) + self._line_end)

    def _before(self, record: ConsumedRecord) -> list[bytes]:
        fields: list[bytes] = []
        if self._timestamp:
            fields.append(timestamp_text(record).encode())
        if self._partition:
            fields.append(b"Partition:%d" % record.partition)
        if self._offset:
            fields.append(b"Offset:%d" % record.offset)
        if self._epoch:
            fields.append(b"Epoch:NOT_PRESENT")
        if self._headers:
            fields.append(self._headers_text(record.headers))
        return fields

    def _headers_text(self, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            key.encode() + b":" + self._text(value, self._read_header) for key, value in headers
        )

    def _text(self, data: bytes | None, read: Deserializer | None) -> bytes:
        if data is None:
            return self._null
        return bytes(data) if read is None else read(bytes(data))


def timestamp_text(record: ConsumedRecord) -> str:
    if record.timestamp_type not in (0, 1) or record.timestamp < 0:
        return "NO_TIMESTAMP"
    return f"{TIMESTAMP_NAMES[record.timestamp_type]}:{record.timestamp}"


class LoggingFormatter:
    """The default one, and each record to stderr as well, where Kafka's has its log."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def write(self, record: ConsumedRecord, out: BinaryIO) -> None:
        import sys

        self._default.write(record, out)
        key = "null" if record.key is None else bytes(record.key).decode(errors="replace")
        value = "null" if record.value is None else bytes(record.value).decode(errors="replace")
        time = "" if record.timestamp < 0 else f"{timestamp_text(record)}, "
        print(f"{time}key:{key}, value:{value}", file=sys.stderr)


def _deserializer(properties: Mapping[str, str], *names: str) -> Deserializer | None:
    for name in names:
        if chosen := properties.get(name):
            prefix = f"{name}."
            own = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
            try:
                return deserializer(chosen, own, key=name.startswith("key"))
            except UnknownDeserializer as error:
                raise UsageError(str(error)) from None
    return None


def _coordinator_formatter(module: str, wanted: Mapping[int, tuple[str, str]]) -> Formatter:
    """Of records of a coordinator: the type is in the first two bytes of the key, the version in those of the value.

    Each stands on a line of its own, which Kafka's formatters forget.
    """

    def write(record: ConsumedRecord, out: BinaryIO) -> None:
        import importlib
        import json

        from barnabas.cli.files.record_json import record_json

        if record.key is None or len(record.key) < 2:
            return
        (kind,) = struct.unpack_from(">h", record.key)
        if kind not in wanted:
            return
        records = importlib.import_module(f"barnabas.wire.records.{module}")
        key_class: type[Record] = getattr(records, wanted[kind][0])
        value_class: type[Record] = getattr(records, wanted[kind][1])
        key, _ = key_class.decode_from(bytes(record.key), 2, 0)
        told: dict[str, Any] = {"key": {"type": kind, "data": record_json(key, 0)}, "value": None}
        if record.value is not None:
            (version,) = struct.unpack_from(">h", record.value)
            newest = value_class.valid_versions[1]
            data = None
            if version <= newest:
                value, _ = value_class.decode_from(bytes(record.value), 2, version)
                data = record_json(value, version)
            told["value"] = {"version": version, "data": "unknown" if data is None else data}
        out.write(json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    return write


_COORDINATOR_FORMATTERS: dict[str, Formatter] = {
    "OffsetsMessageFormatter": _coordinator_formatter("groups", {1: ("OffsetCommitKey", "OffsetCommitValue")}),
    "GroupMetadataMessageFormatter": _coordinator_formatter("groups", {2: ("GroupMetadataKey", "GroupMetadataValue")}),
    "TransactionLogMessageFormatter": _coordinator_formatter(
        "transactions", {0: ("TransactionLogKey", "TransactionLogValue")}
    ),
}
