"""A JSON schema as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from barnabas.client.schemas import ParsedSchema, ResolvedReference
from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_schema.diff import TooComplex, differences
from barnabas.client.schemas.json_schema.load import Loader
from barnabas.client.schemas.json_schema.model import ObjectSchema
from barnabas.client.schemas.json_schema.text import read_exact, write_exact


class JsonSchema:
    type = "JSON"

    def __init__(self, text: str, references: Sequence[ResolvedReference] = (), *, ordered: bool = False) -> None:
        self._references = references
        self._ordered = ordered
        self._text = text
        self.tree = read_exact(text)
        if not isinstance(self.tree, dict | bool):
            raise InvalidSchema("Invalid JSON schema: it is neither an object nor a boolean")
        self.root = Loader(self.tree, {each.name: each.text for each in references}).load()

    @cached_property
    def canonical(self) -> str:
        return write_exact(self.tree, ordered=self._ordered)

    @property
    def comparable(self) -> str:
        return self.canonical

    def formatted(self, form: str) -> str:
        return self.canonical

    def normalized(self) -> JsonSchema:
        return JsonSchema(self._text, self._references, ordered=True)

    def equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, JsonSchema) and self.canonical == other.canonical

    def top_level_fields(self) -> set[str]:
        return set(self.root.properties) if isinstance(self.root, ObjectSchema) else set()

    def check_fields(self) -> None:
        if any(name.startswith("$$") for name in self.top_level_fields()):
            raise InvalidSchema("Invalid JSON schema: #: Field names cannot start with $$ prefix")

    def unreadable(self, written: ParsedSchema, reader: str, writer: str) -> list[str]:
        assert isinstance(written, JsonSchema)
        try:
            found = differences(written.root, self.root)
        except (TooComplex, RecursionError):
            return ["Unexpected exception during compatibility check: the schemas are too complex to be compared"]
        return [each.show(reader, writer) for each in found if not each.compatible]
