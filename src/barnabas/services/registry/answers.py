"""Schemas as they are answered; what is empty is left out."""

from __future__ import annotations

from barnabas.services.registry.entities import Tree
from barnabas.services.registry.quick import whole_answer
from barnabas.services.registry.records import StoredSchema, encode_json


def schema_tree(stored: StoredSchema, text: str | None = None, *, aliases: list[str] | None = None) -> Tree:
    """A version of a subject."""
    tree: Tree = {"subject": stored.subject, "version": stored.version, "id": stored.id, "guid": stored.guid}
    tree |= _parts(stored) | {"schema": stored.text if text is None else text}
    tree |= {"ts": stored.timestamp_ms} if stored.timestamp_ms is not None else {}
    tree["deleted"] = stored.deleted
    return tree | ({"aliases": aliases} if aliases else {})


def schema_id_tree(stored: StoredSchema, text: str) -> Tree:
    """The schema of an id, with the first version that has it."""
    return {"subject": stored.subject, "version": stored.version} | schema_guid_tree(stored, text)


def schema_guid_tree(stored: StoredSchema, text: str) -> Tree:
    """The schema of a guid."""
    tree: Tree = {"guid": stored.guid} | _parts(stored) | {"schema": text}
    tree |= {"ts": stored.timestamp_ms} if stored.timestamp_ms is not None else {}
    tree["deleted"] = stored.deleted
    return tree


def schema_by_id(stored: StoredSchema) -> bytes:
    """Keeps the whole answer with the schema: the next time it is sent as it is."""
    body = encode_json(schema_id_tree(stored, stored.text))
    if stored.answer is None:
        stored.answer = whole_answer(body)
    return body


def registered_tree(stored: StoredSchema, text: str | None = None) -> Tree:
    """The answer to a registration."""
    tree: Tree = {"id": stored.id, "version": stored.version, "guid": stored.guid}
    return tree | _parts(stored) | {"schema": stored.text if text is None else text}


def _parts(stored: StoredSchema) -> Tree:
    tree: Tree = {"schemaType": stored.type}
    if stored.references:
        tree["references"] = [each.tree() for each in stored.references]
    if stored.metadata is not None:
        tree["metadata"] = stored.metadata
    if stored.rule_set is not None:
        tree["ruleSet"] = stored.rule_set
    return tree
