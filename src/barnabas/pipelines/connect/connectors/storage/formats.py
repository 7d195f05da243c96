"""Formats of files: JSON lines, Avro, Parquet, CSV, plain lines and bytes.

A writer makes the bytes of a whole file. A reader gives values from a position on, and behind each the position after
it, so that a file of any size is read in several turns without reading it again.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.pipelines.connect.config import Setting, one_of
from barnabas.pipelines.connect.connectors.storage import arrow
from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.schema import OPTIONAL_STRING, STRING, Schema, Struct, struct
from barnabas.pipelines.connect.errors import ConfigError, DataError
from barnabas.pipelines.connect.registry_converters import avro_schema, avro_value, connect_schema, connect_value

PARQUET_CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
FORMAT_SETTINGS = (
    Setting("parquet.codec", "STRING", "snappy", "LOW", "Compression of Parquet.", one_of(*PARQUET_CODECS), "Storage"),
    Setting("avro.codec", "STRING", "null", "LOW", "Compression of Avro.", one_of("null", "deflate", "snappy"),
            "Storage"),
    Setting("s3.compression.type", "STRING", "none", "LOW", "Compression of JSON and bytes.", one_of("none", "gzip"),
            "Storage"),
)  # fmt: skip
BATCH_ROWS = 10_000
Pairs = Sequence[tuple[Schema | None, Any]]


class Read(NamedTuple):
    schema: Schema | None
    value: Any
    position: dict[str, int]


class Format:
    extension = ""
    takes_tables = False  # whether `write` takes Arrow tables among the values

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        raise NotImplementedError

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        """`file` is binary and can seek."""
        raise NotImplementedError


class _Compressed(Format):
    """Text that may be compressed as a whole; such a file is read from its beginning again."""

    plain = ""

    @property
    def extension(self) -> str:  # type: ignore[override]
        return f"{self.plain}.gz" if self.values.get("s3.compression.type") == "gzip" else self.plain

    def _packed(self, data: bytes) -> bytes:
        # Without a time in it, the same records give the same bytes.
        return gzip.compress(data, mtime=0) if self.values.get("s3.compression.type") == "gzip" else data


def lines_of(file: Any, at: Mapping[str, int]) -> Iterator[tuple[bytes, int]]:
    """Lines and the position behind each; those of gzip count unpacked bytes."""
    head = file.read(2)
    file.seek(0)
    opened: Any = gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file
    position = at.get("position", 0)
    opened.seek(position)
    for line in opened:
        position += len(line)
        yield line, position


class JsonFormat(_Compressed):
    plain = ".json"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        converter = JsonConverter({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
        return self._packed(b"".join((converter.to_bytes("", schema, each) or b"null") + b"\n" for each in values))

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        converter = JsonConverter({"schemas.enable": "false"}, is_key=False)
        for line, position in lines_of(file, at):
            if line.strip():
                yield Read(None, converter.to_connect("", line).value, {"position": position})


class LinesFormat(_Compressed):
    """A record is a line."""

    plain = ".txt"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        return self._packed("".join(f"{java_text(each)}\n" for each in values).encode("utf-8", "replace"))

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        for line, position in lines_of(file, at):
            text = line.rstrip(b"\r\n").decode("utf-8", "replace")
            yield Read(STRING, text, {"position": position})


class BytesFormat(_Compressed):
    """Values of ByteArrayConverter, one a line."""

    plain = ".bin"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        if not all(isinstance(each, bytes) for each in values):
            raise DataError("ByteArrayFormat writes bytes only: value.converter must be ByteArrayConverter")
        return self._packed(b"".join(each + b"\n" for each in values))

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        for line, position in lines_of(file, at):
            yield Read(None, line.removesuffix(b"\n"), {"position": position})


class AvroFormat(Format):
    extension = ".avro"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        if schema is None:
            raise DataError("AvroFormat needs a schema: the records have none")
        out = io.BytesIO()
        parsed = fastavro.parse_schema(avro_schema(schema))
        rows = (avro_value(schema, each) for each in values)
        try:
            fastavro.writer(out, parsed, rows, codec=self.values.get("avro.codec", "null"), sync_marker=b"barnabas" * 2)
        except (ValueError, TypeError) as error:
            raise DataError(f"the records do not fit their Avro schema: {error}") from None
        return out.getvalue()

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        done = at.get("records", 0)
        try:
            blocks = fastavro.block_reader(file)
            schema = connect_schema(blocks.writer_schema, {})
            passed = 0
            for block in blocks:
                if passed + block.num_records <= done:
                    passed += block.num_records
                    continue
                for row in block:
                    passed += 1
                    if passed > done:
                        yield Read(schema, connect_value(schema, row), {"records": passed})
        except (ValueError, EOFError, KeyError, TypeError) as error:
            raise DataError(f"no Avro file, or a damaged one: {error}") from None


class ParquetFormat(Format):
    takes_tables = True

    @property
    def extension(self) -> str:  # type: ignore[override]
        codec = self.values.get("parquet.codec", "snappy")
        return ".parquet" if codec == "none" else f".{codec}.parquet"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        parts: list[Any] = []
        for is_table, group in itertools.groupby(values, lambda each: isinstance(each, pa.Table)):
            some = list(group)
            parts += some if is_table else [self._table(schema, some)]
        table = arrow.together(parts)
        out = io.BytesIO()
        pq.write_table(table, out, compression=self.values.get("parquet.codec", "snappy"))
        return out.getvalue()

    @staticmethod
    def _table(schema: Schema | None, values: Sequence[Any]) -> Any:
        if all(isinstance(each, Struct) for each in values) and schema is not None:
            return arrow.table(schema, values)
        if all(isinstance(each, dict) for each in values):
            return arrow.inferred_table(values)
        raise DataError("ParquetFormat needs records with fields: structs, or maps without a schema")

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        done = at.get("records", 0)
        try:
            found = pq.ParquetFile(file)
            schema = struct((field.name, arrow.connect_field(field)) for field in found.schema_arrow)
            passed = 0
            for group in range(found.num_row_groups):
                rows = found.metadata.row_group(group).num_rows
                if passed + rows <= done:
                    passed += rows
                    continue
                for batch in found.iter_batches(BATCH_ROWS, row_groups=[group]):
                    for row in batch.to_pylist():
                        passed += 1
                        if passed > done:
                            yield Read(schema, arrow.read_value(schema, row), {"records": passed})
        except pa.ArrowException as error:
            raise DataError(f"no Parquet file, or a damaged one: {error}") from None


class CsvFormat(Format):
    """The first row names the fields; all values are texts, and none where the text is empty."""

    extension = ".csv"

    def write(self, schema: Schema | None, values: Sequence[Any]) -> bytes:
        raise DataError("files of CSV are read, not written")

    def read(self, file: Any, at: Mapping[str, int]) -> Iterator[Read]:
        separator = self.values.get("csv.separator.char", ",")
        quote = self.values.get("csv.quote.char", '"')
        first = _Counted(file, {"position": 0})
        header = self.values.get("csv.first.row.as.header", True)
        row = next(csv.reader(first, delimiter=separator, quotechar=quote), None)
        if row is None:
            return
        names = row if header else [f"column{number:02}" for number in range(1, len(row) + 1)]
        schema = struct([(name, OPTIONAL_STRING) for name in names])
        begin = at.get("position") or (first.position if header else 0)
        file.seek(0)
        counted = _Counted(file, {"position": begin})
        try:
            for row in csv.reader(counted, delimiter=separator, quotechar=quote, strict=True):
                if not row:
                    continue
                if len(row) != len(names):
                    raise DataError(f"a row has {len(row)} values for {len(names)} fields: {','.join(row)[:80]}")
                values = {name: text or None for name, text in zip(names, row, strict=True)}
                yield Read(schema, Struct.unchecked(schema, values), {"position": counted.position})
        except csv.Error as error:
            raise DataError(f"no CSV behind position {counted.position}: {error}") from None


class _Counted:
    """Lines as text; the position is that behind the last line given."""

    def __init__(self, file: Any, at: Mapping[str, int]) -> None:
        self._lines = lines_of(file, at)
        self.position = at.get("position", 0)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line, self.position = next(self._lines)
        try:
            return line.decode("utf-8-sig" if self.position == len(line) else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"a line is no UTF-8: {error}") from None


FORMATS: dict[str, type[Format]] = {
    "json": JsonFormat,
    "avro": AvroFormat,
    "parquet": ParquetFormat,
    "bytearray": BytesFormat,
    "csv": CsvFormat,
    "string": LinesFormat,
    "lines": LinesFormat,
}
EXTENSIONS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".avro": "avro", ".parquet": "parquet",
              ".bin": "bytearray", ".csv": "csv", ".tsv": "csv", ".txt": "lines", ".log": "lines"}  # fmt: skip


def make_format(name: str, values: Mapping[str, Any]) -> Format:
    """By a class of Confluent's, as io.confluent.connect.s3.format.parquet.ParquetFormat, or the short name."""
    short = name.rpartition(".")[2].lower().removesuffix("format")
    if short not in FORMATS:
        raise ConfigError(f"is none of {', '.join(sorted(FORMATS))}", "format.class", name)
    return FORMATS[short](values)


def format_of_path(path: str, values: Mapping[str, Any]) -> Format:
    bare = path.removesuffix(".gz").removesuffix(".processing")
    found = EXTENSIONS.get("." + bare.rpartition(".")[2].lower())
    if found is None:
        raise DataError(f"the name of {path} tells no format: set format.class, or input.file.pattern to leave it out")
    return FORMATS[found](values)
