"""Finds a schema among those stored: by what it consists of, else by what it means."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.schemas import ParsedSchema
from barnabas.services.registry.entities import Tree, confluent_version, without_confluent_version
from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.library import Library
from barnabas.services.registry.records import StoredSchema
from barnabas.services.registry.requests import SchemaRequest


def find_equivalent(
    library: Library,
    parsed: ParsedSchema,
    request: SchemaRequest,
    candidates: Iterable[StoredSchema],
    schema_id: int = -1,
) -> StoredSchema | None:
    """The first that is the same schema, its references resolved or not, with or without `confluent:version`."""
    for stored in candidates:
        if stored.type != parsed.type or (schema_id >= 0 and stored.id != schema_id):
            continue
        if not _same_parts(request, stored):
            continue
        if request.references and request.references != library.pinned(stored.subject, stored.references):
            continue
        if not request.references and stored.references and parsed.type == "PROTOBUF":
            continue
        try:
            alone = not request.references and not stored.references
            if alone and library.comparable_hash(stored) != hash(parsed.comparable):
                continue
            if parsed.equivalent(library.parsed(stored)):
                return stored
        except RegistryError:
            continue  # a stored schema that cannot be read equals nothing
    return None


def _same_parts(request: SchemaRequest, stored: StoredSchema) -> bool:
    if request.rule_set != stored.rule_set:
        return False
    asked, kept = confluent_version(request.metadata), confluent_version(stored.metadata)
    if asked is None and kept is not None:
        return _plain(request.metadata) == without_confluent_version(stored.metadata)
    if asked is not None and kept is None:
        same = _plain(stored.metadata) == without_confluent_version(request.metadata)
        return asked == str(stored.version) and same
    return request.metadata == stored.metadata


def _plain(metadata: Tree | None) -> Tree:
    return metadata or {}
