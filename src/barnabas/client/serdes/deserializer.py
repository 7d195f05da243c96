"""Bytes with the id of a schema to objects: the schemas that were used are compiled once and kept."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from barnabas.client.serdes.codec import Codec, codec_of
from barnabas.client.serdes.framing import FIRST_MESSAGE, Framed, Headers, read_frame, read_indexes
from barnabas.client.serdes.registry import Registry
from barnabas.client.serdes.schema import RegisteredSchema, Schema

FIRST = (0,)


class Decoded(NamedTuple):
    """A record's schema and the bytes that are of it."""

    registered: RegisteredSchema
    codec: Codec
    body: bytes


class Deserializer:
    """With `reader`, Avro's records are read as that schema sees them: with its defaults, without what it lacks."""

    def __init__(
        self,
        registry: Registry,
        *,
        is_key: bool = False,
        reader: Schema | None = None,
        logical_types: bool | Collection[str] = True,
    ) -> None:
        self._registry = registry
        self._is_key = is_key
        self._logical_types = logical_types
        self._compiled: dict[int | str, tuple[RegisteredSchema, Any]] = {}
        self._reader = None if reader is None else self._codec(reader)

    def decode(self, data: bytes | None, headers: Headers = ()) -> Any:
        """None is a tombstone. Raises SerdeError for bytes that are wrong, RegistryRefused for an unknown schema."""
        if data is None:
            return None
        # The way of most records, without a step too many.
        if not headers and data[:1] == b"\0" and len(data) > 4:
            compiled = self._compiled.get(int.from_bytes(data[1:5], "big"))
            if compiled is not None and self._reader is None:
                if compiled[0].schema.type != "PROTOBUF":
                    return compiled[1].decode(data[5:])
                if data[5:6] == FIRST_MESSAGE:
                    return compiled[1].codec_at(FIRST).decode(data[6:])
        found = self.open(data, headers)
        if self._reader is not None and hasattr(found.codec, "decode_as"):
            return found.codec.decode_as(found.body, self._reader)
        return found.codec.decode(found.body)

    def decode_json(self, data: bytes, headers: Headers = ()) -> Any:
        """The JSON that consoles and REST proxies show."""
        found = self.open(data, headers)
        return found.codec.to_json(found.body)

    def open(self, data: bytes, headers: Headers = ()) -> Decoded:
        """Which schema a record has, and its bytes."""
        framed = read_frame(data, headers, is_key=self._is_key)
        registered, compiled = self._schema_of(framed)
        at = framed.at
        codec: Codec = compiled
        if registered.schema.type == "PROTOBUF":
            indexes, at = read_indexes(framed.data, at)
            codec = compiled.codec_at(indexes)
        return Decoded(registered, codec, framed.data[at:] if framed.body is None else framed.body)

    def _schema_of(self, framed: Framed) -> tuple[RegisteredSchema, Any]:
        key = framed.id if framed.id is not None else framed.guid
        assert key is not None
        known = self._compiled.get(key)
        if known is None:
            asked = self._registry.by_id(key) if isinstance(key, int) else self._registry.by_guid(key)
            known = self._compiled[key] = asked, self._codec(asked.schema)
        return known

    def _codec(self, schema: Schema) -> Any:
        references = self._registry.resolved(schema)
        if schema.type == "PROTOBUF":
            from barnabas.client.serdes.protobuf import ProtobufFile

            return ProtobufFile(schema, references)
        return codec_of(schema, references, logical_types=self._logical_types)
