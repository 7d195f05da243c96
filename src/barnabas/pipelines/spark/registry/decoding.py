"""What runs in the workers: bytes with the ids of schemas to structs of one type, a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.schemas.avro.model import Record
from barnabas.client.serdes import Deserializer, RegistryRefused, Schema, SerdeError, codec_of, shared_registry
from barnabas.client.serdes.framing import ID_MAGIC, PREFIX
from barnabas.pipelines.spark.registry.arrow_types import LOGICAL, of_avro, of_json_schema, of_protobuf
from barnabas.pipelines.spark.registry.avro_columns import NotReadable, can_read, read_records
from barnabas.pipelines.spark.registry.avro_projection import can_project, project
from barnabas.pipelines.spark.registry.values import Values

ERROR = "error"
RECORD = "record"
WRITERS_MAX = 1_000


class Decoding:
    """It is pickled to the workers as addresses and texts; each has one client of the registry."""

    def __init__(self, url: str, properties: Mapping[str, str], schema: Schema, schema_id: int) -> None:
        self._url = url
        self._properties = dict(properties)
        self._schema = schema
        self._schema_id = schema_id  # of the reader's schema in the registry, or -1
        self._made: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    @property
    def type(self) -> pa.DataType:
        """Of the structs."""
        if "type" not in self._made:
            registry = shared_registry(self._url, self._properties)
            codec: Any = codec_of(self._schema, registry.resolved(self._schema), logical_types=LOGICAL)
            kinds = {"JSON": lambda: of_json_schema(codec.tree), "PROTOBUF": lambda: of_protobuf(codec.descriptor)}
            self._made["type"] = kinds.get(self._schema.type, lambda: of_avro(codec.type))()
            self._made["codec"] = codec
        found: pa.DataType = self._made["type"]
        return found

    def decode(self, values: pa.Array) -> pa.Array:
        """A struct of the record and, if it cannot be read, of the reason; null for a tombstone."""
        batch = Values(values)
        parts, owners = [], []
        for prefix, owner in batch.by_schema().items():
            quick = self._by_columns(prefix, batch, owner)
            errors = pa.nulls(len(owner), pa.string())
            parts.append((quick, errors) if quick is not None else self._by_rows(batch.rows(owner)))
            owners.append(owner)
        if len(parts) == 1:
            found, errors = parts[0]
        elif parts:
            order = pa.array(np.argsort(np.concatenate(owners)))
            found, errors = (pa.concat_arrays(each).take(order) for each in zip(*parts, strict=True))
        else:
            found, errors = pa.nulls(0, self.type), pa.nulls(0, pa.string())
        return pa.StructArray.from_arrays([found, errors], names=[RECORD, ERROR], mask=values.is_null())

    def _by_columns(self, prefix: bytes, batch: Values, places: Any) -> pa.Array | None:
        """The records at these places, all of one schema; None if they must be read one by one."""
        kind = self.type
        writer = self._writer(prefix)
        if writer is None:
            return None
        reader = self._made["codec"].type
        try:
            column = read_records(writer, batch.data, batch.starts[places] + PREFIX.size, batch.ends[places])
            return (column if writer is reader else project(column, writer, reader)).cast(kind)
        except (NotReadable, pa.ArrowInvalid):
            return None

    def _writer(self, prefix: bytes) -> Record | None:
        """The schema that records with this beginning were written with, if they can be read by columns."""
        known: dict[bytes, Record | None] = self._made.setdefault("writers", {})
        if prefix not in known:
            if len(known) >= WRITERS_MAX:
                known.clear()
            known[prefix] = self._found_writer(prefix)
        return known[prefix]

    def _found_writer(self, prefix: bytes) -> Record | None:
        reader = getattr(self._made["codec"], "type", None)
        if len(prefix) < PREFIX.size or prefix[0] != ID_MAGIC:
            return None
        if not isinstance(reader, Record) or not can_read(reader):
            return None
        schema_id = PREFIX.unpack(prefix)[1]
        if schema_id == self._schema_id:
            return reader
        registry = shared_registry(self._url, self._properties)
        try:
            schema = registry.by_id(schema_id).schema
            codec: Any = codec_of(schema, registry.resolved(schema), logical_types=LOGICAL)
        except (SerdeError, RegistryRefused):
            return None  # told for each record
        writer = getattr(codec, "type", None)
        return writer if isinstance(writer, Record) and can_read(writer) and can_project(writer, reader) else None

    def _by_rows(self, rows: list[bytes | None]) -> tuple[pa.Array, pa.Array]:
        found, errors = [], []
        for row in rows:
            value, error = None, None
            try:
                value = self._fitted(self._deserializer().decode(row))
            except (SerdeError, RegistryRefused) as problem:
                error = str(problem)
            found.append(value)
            errors.append(error)
        try:
            records = pa.array(found, self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
            records = self._one_by_one(found, errors)
        return records, pa.array(errors, pa.string())

    def _one_by_one(self, found: list[Any], errors: list[str | None]) -> pa.Array:
        """Finds the values that are not of the type; the others are kept."""
        for index, value in enumerate(found):
            try:
                pa.array([value], self.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as problem:
                found[index], errors[index] = None, f"it does not fit {self.type}: {problem}"
        return pa.array(found, self.type)

    def _fitted(self, value: Any) -> Any:
        return fitted(value, self.type) if self._schema.type == "JSON" else value

    def _deserializer(self) -> Deserializer:
        if "deserializer" not in self._made:
            registry = shared_registry(self._url, self._properties)
            reader = self._schema if self._schema.type == "AVRO" else None
            self._made["deserializer"] = Deserializer(registry, reader=reader, logical_types=LOGICAL)
        made: Deserializer = self._made["deserializer"]
        return made

    def reason(self, value: bytes | None) -> str:
        """Why a record cannot be read."""
        row = self.decode(pa.array([value], pa.binary()))[0].as_py()
        return str((row or {}).get(ERROR) or "it has no schema")


def fitted(value: Any, kind: pa.DataType) -> Any:
    """JSON for a column: what has no type of its own in Spark is its text."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: fitted(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(each, kind.value_type) for each in value]
    if pa.types.is_floating(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


class Encoding:
    """Structs to bytes; the schema was registered by the driver, and nobody is asked here."""

    def __init__(self, schema: Schema, references: list[Any], mark: bytes, message: str) -> None:
        self._schema = schema
        self._references = references
        self._mark = mark
        self._message = message
        self._codec: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_codec": None}

    def encode(self, records: pa.Array) -> pa.Array:
        if self._codec is None:
            self._codec = codec_of(self._schema, self._references, message=self._message)
        encode, mark = self._codec.encode, self._mark
        if self._schema.type == "JSON":
            return pa.array([None if each is None else mark + encode(bare(each)) for each in plain_rows(records)])
        return pa.array([None if each is None else mark + encode(each) for each in plain_rows(records)], pa.binary())


def plain_rows(records: pa.Array) -> list[Any]:
    rows: list[Any] = records.to_pylist(maps_as_pydicts="strict")
    return rows


def bare(value: Any) -> Any:
    """Without the fields that are null: a JSON schema says by their absence that they are not there."""
    if isinstance(value, dict):
        return {name: bare(each) for name, each in value.items() if each is not None}
    return [bare(each) for each in value] if isinstance(value, list) else value
