"""A schema as users write it and as a registry knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class SchemaReference(NamedTuple):
    """Another schema that is used under a name: an Avro type, a JSON Schema's URI, the file that is imported."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    text: str
    type: str = "AVRO"  # or JSON, PROTOBUF
    references: tuple[SchemaReference, ...] = ()

    def tree(self) -> dict[str, Any]:
        """As a request to a registry has it."""
        tree: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            tree["schemaType"] = self.type
        if self.references:
            tree["references"] = [each._asdict() for each in self.references]
        return tree


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    id: int
    schema: Schema
    guid: str | None = None
    subject: str | None = None
    version: int | None = None


def schema_from(tree: dict[str, Any]) -> Schema:
    references = tuple(
        SchemaReference(each["name"], each["subject"], each["version"]) for each in tree.get("references") or ()
    )
    return Schema(tree["schema"], tree.get("schemaType") or "AVRO", references)
