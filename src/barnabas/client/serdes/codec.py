"""The codec of a schema: objects to bytes and back, without the id of the schema and without any I/O.

Objects are plain: dicts for records, objects and messages. `to_json` and `from_json` are between bytes and the JSON in
which consoles and REST proxies show records: Avro's JSON encoding with `{"long": 999}` in unions, Protobuf's mapping.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from barnabas.client.schemas import ResolvedReference
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.schema import Schema


class Codec(Protocol):
    """All methods raise SerdeError."""

    schema: Schema
    record_name: str | None  # of Avro's record, the JSON schema's title, or the message

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...

    def to_json(self, data: bytes) -> Any:
        """A tree for `json.dumps`."""
        ...

    def from_json(self, tree: Any) -> bytes: ...


def codec_of(
    schema: Schema,
    references: Sequence[ResolvedReference] = (),
    *,
    logical_types: bool | Collection[str] = True,
    message: str = "",
) -> Codec:
    """`message` names the one of a Protobuf file that is meant, if it is not the first; Avro's logical types become
    dates, decimals and UUIDs if they are wanted: all of them, or those that are named."""
    if schema.type == "AVRO":
        from barnabas.client.serdes.avro import AvroCodec

        return AvroCodec(schema, references, logical_types=logical_types)
    if schema.type == "JSON":
        from barnabas.client.serdes.json_schema import JsonSchemaCodec

        return JsonSchemaCodec(schema, references)
    if schema.type == "PROTOBUF":
        from barnabas.client.serdes.protobuf import ProtobufFile

        return ProtobufFile(schema, references).codec(message)
    raise SerdeError(f"{schema.type} is not a type of schema: AVRO, JSON and PROTOBUF are.")
