"""An Avro schema as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from barnabas.client.schemas import ParsedSchema, ResolvedReference
from barnabas.client.schemas.avro.canonical import canonical_text, normalize
from barnabas.client.schemas.avro.compatibility import AmbiguousField, TooComplex, incompatibilities
from barnabas.client.schemas.avro.model import Record
from barnabas.client.schemas.avro.parse import parse_avro


class AvroSchema:
    type = "AVRO"

    def __init__(self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True) -> None:
        self._text = text
        self._references = references
        self._is_new = is_new
        self.root, self._referenced = parse_avro(text, [each.text for each in references], is_new=is_new)

    @cached_property
    def canonical(self) -> str:
        return canonical_text(self.root, self._referenced)

    @property
    def comparable(self) -> str:
        return self.canonical

    def formatted(self, form: str) -> str:
        return canonical_text(self.root) if form == "resolved" else self.canonical

    def normalized(self) -> AvroSchema:
        other = AvroSchema(self._text, self._references, is_new=self._is_new)
        normalize(other.root)
        return other

    def equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, AvroSchema) and canonical_text(self.root) == canonical_text(other.root)

    def top_level_fields(self) -> set[str]:
        return {field.name for field in self.root.fields} if isinstance(self.root, Record) else set()

    def check_fields(self) -> None:
        """Every Avro schema has been held to its rules when it was read."""

    def unreadable(self, written: ParsedSchema, reader: str, writer: str) -> list[str]:
        assert isinstance(written, AvroSchema)
        try:
            found = incompatibilities(self.root, written.root)
        except AmbiguousField as error:
            return [f"Unexpected exception during compatibility check: {error}"]
        except (TooComplex, RecursionError):
            return ["Unexpected exception during compatibility check: the schemas are too complex to be compared"]
        return [each.show(reader, writer) for each in found]
