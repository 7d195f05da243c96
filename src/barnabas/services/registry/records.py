"""The records of `_schemas`, as Confluent's registry writes them: a key and a value, both JSON.

The bytes of a key decide what compaction keeps, so keys are built with their parts in a fixed order.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from barnabas.services.registry.entities import Reference, Tree, guid_of

SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT", "NOOP"
TENANT = "default"

encode_json = msgspec.json.encode
decode_json = msgspec.json.decode


class Key(NamedTuple):
    """`subject` is None for settings of everything, and a context's name for CONTEXT."""

    kind: str
    subject: str | None = None
    version: int | None = None

    def encode(self) -> bytes:
        tree: Tree = {"keytype": self.kind}
        if self.kind == CONTEXT:
            tree |= {"tenant": TENANT, "context": self.subject}
        elif self.subject:
            tree["subject"] = self.subject
        if self.version is not None:
            tree["version"] = self.version
        tree["magic"] = 1 if self.kind == SCHEMA else 0
        return encode_json(tree)


class Record(NamedTuple):
    key: Key
    value: Tree | None  # None deletes

    def encode(self) -> tuple[bytes, bytes | None]:
        return self.key.encode(), None if self.value is None else encode_json(self.value)


@dataclass(slots=True, eq=False)
class StoredSchema:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Tree | None = None
    rule_set: Tree | None = None
    deleted: bool = False
    timestamp_ms: int | None = None
    guid: str = ""
    answer: bytes | None = None  # to the question for its id, encoded once

    def __post_init__(self) -> None:
        if not self.guid:
            self.guid = guid_of(self.text, self.references, self.metadata, self.rule_set)

    def record(self, *, deleted: bool = False) -> Record:
        value: Tree = {"subject": self.subject, "version": self.version, "id": self.id, "schemaType": self.type}
        if self.references:
            value["references"] = [each.tree() for each in self.references]
        if self.metadata is not None:
            value["metadata"] = self.metadata
        if self.rule_set is not None:
            value["ruleSet"] = self.rule_set
        return Record(Key(SCHEMA, self.subject, self.version), value | {"schema": self.text, "deleted": deleted})


class UnreadableRecord(ValueError):
    pass


def decode_key(key: bytes | None) -> Key | None:
    """None for keys that a newer registry wrote."""
    try:
        tree = decode_json(key or b"")
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableRecord("its key is not JSON") from None
    if not isinstance(tree, dict):
        raise UnreadableRecord("its key is not an object")
    kind = tree.get("keytype")
    if kind == CONTEXT:
        return Key(CONTEXT, tree.get("context"))
    if kind == NOOP:
        return Key(NOOP)
    if kind not in (SCHEMA, CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT):
        return None
    return Key(kind, tree.get("subject") or None, tree.get("version") if kind == SCHEMA else None)


def decode_value(value: bytes | None) -> Tree | None:
    if value is None:
        return None
    try:
        tree = decode_json(value)
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableRecord("its value is not JSON") from None
    if not isinstance(tree, dict):
        raise UnreadableRecord("its value is not an object")
    return tree


def schema_from(value: Tree, timestamp_ms: int) -> StoredSchema:
    try:
        references = value.get("references") or ()
        return StoredSchema(
            subject=value["subject"],
            version=value["version"],
            id=value["id"],
            type=value.get("schemaType") or "AVRO",
            text=value["schema"],
            references=tuple(Reference(each["name"], each["subject"], each["version"]) for each in references),
            metadata=value.get("metadata"),
            rule_set=value.get("ruleSet"),
            deleted=bool(value.get("deleted", False)),
            timestamp_ms=timestamp_ms,
            guid=_guid_in(value.get("md5")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecord(f"its value is not a schema's ({error})") from None


def _guid_in(md5: Any) -> str:
    return str(UUID(bytes=base64.b64decode(md5))) if isinstance(md5, str) and md5 else ""
