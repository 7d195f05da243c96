"""Avro: fastavro between objects and bytes, `avro_json` between bytes and JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from io import BytesIO
from typing import Any, cast

import fastavro
from fastavro.types import Schema as FastSchema

from barnabas.client.schemas import InvalidSchema, ResolvedReference
from barnabas.client.schemas.avro.model import Named
from barnabas.client.schemas.avro.schema import AvroSchema
from barnabas.client.serdes import avro_json
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.schema import Schema

WRONG_DATA = (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, AttributeError, RecursionError)


class AvroCodec:
    def __init__(
        self,
        schema: Schema,
        references: Sequence[ResolvedReference] = (),
        *,
        logical_types: bool | Collection[str] = True,
    ) -> None:
        self.schema = schema
        try:
            parsed = AvroSchema(schema.text, references, is_new=False)
            tree = json.loads(parsed.formatted("resolved"))
            self._parsed = parsed_for_fastavro(
                tree if logical_types is True else without_logical_types(tree, logical_types or ())
            )
        except InvalidSchema as error:
            raise SerdeError(f"The Avro schema is not valid: {error}") from None
        self.type = parsed.root
        self.tree = tree
        self.record_name = parsed.root.full_name if isinstance(parsed.root, Named) else None

    def encode(self, value: Any) -> bytes:
        buffer = BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._parsed, value, strict_allow_default=True)
        except WRONG_DATA as error:
            raise SerdeError(f"The value does not fit the Avro schema: {_reason(error)}") from None
        return buffer.getvalue()

    def decode(self, data: bytes) -> Any:
        return self._read(data, None)

    def decode_as(self, data: bytes, reader: AvroCodec) -> Any:
        """Data of this schema, as another one sees it: with its defaults, without what it does not have."""
        return self._read(data, None if reader is self else reader._parsed)

    def _read(self, data: bytes, reader: FastSchema | None) -> Any:
        buffer = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(buffer, self._parsed, reader)
        except (*WRONG_DATA, fastavro.schema.SchemaParseException) as error:
            raise SerdeError(f"The bytes are not of the Avro schema: {_reason(error)}") from None
        except Exception as error:  # fastavro's own for schemas that do not resolve derives from Exception alone
            if type(error).__module__.partition(".")[0] != "fastavro":
                raise
            raise SerdeError(f"The Avro schemas do not go together: {_reason(error)}") from None
        return value

    def to_json(self, data: bytes) -> Any:
        return avro_json.to_json(self.type, data)

    def from_json(self, tree: Any) -> bytes:
        return avro_json.from_json(self.type, tree)


def parsed_for_fastavro(tree: Any) -> FastSchema:
    try:
        return fastavro.parse_schema(tree)
    except (fastavro.schema.SchemaParseException, KeyError, TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"The Avro schema is not valid: {_reason(error)}") from None


def without_logical_types(tree: Any, kept: Collection[str] = ()) -> Any:
    if isinstance(tree, list):
        return [without_logical_types(each, kept) for each in tree]
    if isinstance(tree, dict):
        return {
            key: each if key == "default" else without_logical_types(each, kept)
            for key, each in tree.items()
            if key != "logicalType" or not isinstance(each, str) or each in kept
        }
    return cast("Any", tree)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, EOFError | IndexError):
        return "they end too early"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing" if error.args else "something is missing"
    return str(error) or type(error).__name__
