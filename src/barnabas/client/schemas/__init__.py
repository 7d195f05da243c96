"""Schemas of the three types behind one shape: what the registry asks of a schema, whatever its language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.client.schemas.errors import InvalidSchema

__all__ = ["TYPES", "InvalidSchema", "ParsedSchema", "ResolvedReference", "parse_schema"]


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """A schema that another one uses: the name it is used under and its text."""

    name: str
    text: str


class ParsedSchema(Protocol):
    type: str

    @property
    def canonical(self) -> str:
        """The text that is stored and hashed."""
        ...

    @property
    def comparable(self) -> str:
        """The text that is the same for schemas that are written in the same way."""
        ...

    def formatted(self, form: str) -> str:
        """The text in another form: `resolved`, `serialized`, `ignore_extensions`; unknown forms give the usual one."""
        ...

    def normalized(self) -> ParsedSchema: ...

    def equivalent(self, other: ParsedSchema) -> bool:
        """The same schema with its references resolved, written another way."""
        ...

    def top_level_fields(self) -> set[str]:
        """Of the record, the object or the first message; none of other schemas."""
        ...

    def check_fields(self) -> None:
        """What `validateFields` asks for beyond what every schema is held to; raises InvalidSchema."""
        ...

    def unreadable(self, written: ParsedSchema, reader: str, writer: str) -> list[str]:
        """Why data of `written` cannot be read with this schema; the two words name the schemas in the messages."""
        ...


Parse = Callable[[str, Sequence[ResolvedReference], bool], ParsedSchema]


def _parse_avro(text: str, references: Sequence[ResolvedReference], is_new: bool) -> ParsedSchema:
    from barnabas.client.schemas.avro.schema import AvroSchema

    return AvroSchema(text, references, is_new=is_new)


def _parse_json(text: str, references: Sequence[ResolvedReference], is_new: bool) -> ParsedSchema:
    from barnabas.client.schemas.json_schema.schema import JsonSchema

    return JsonSchema(text, references)


def _parse_protobuf(text: str, references: Sequence[ResolvedReference], is_new: bool) -> ParsedSchema:
    from barnabas.client.schemas.protobuf.schema import ProtobufSchema

    return ProtobufSchema(text, references, is_new=is_new)


_PARSERS: Mapping[str, Parse] = {"JSON": _parse_json, "PROTOBUF": _parse_protobuf, "AVRO": _parse_avro}
TYPES = tuple(_PARSERS)


def parse_schema(
    schema_type: str, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True
) -> ParsedSchema:
    """Raises InvalidSchema. A new schema is held to stricter rules than one that was stored before."""
    parse = _PARSERS.get(schema_type)
    if parse is None:
        raise InvalidSchema(f"Invalid schema type {schema_type}")
    try:
        return parse(text, references, is_new)
    except InvalidSchema as error:
        raise InvalidSchema(f"Invalid schema of type {schema_type}, details: {error}") from None
