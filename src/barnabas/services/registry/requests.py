"""The bodies of requests, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from barnabas.services.registry.entities import (
    MalformedBody,
    Reference,
    Tree,
    metadata_from,
    references_from,
    rule_set_from,
)
from barnabas.services.registry.errors import RegistryError, invalid_level, invalid_mode, invalid_rule_set
from barnabas.services.registry.levels import Level
from barnabas.services.registry.records import decode_json, encode_json
from barnabas.services.registry.tagged import Tags
from barnabas.services.registry.tags import tags_from

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
TEXT_SETTINGS = ("alias", "aliasForDeks", "compatibilityPolicy", "compatibilityGroup")
FLAG_SETTINGS = ("normalize", "validateFields", "validateNewSchemas", "validateRules")


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema to register, look up or compare. Version 0 and id -1 are not given; version -1 is the latest."""

    text: str
    type: str = "AVRO"
    version: int = 0
    id: int = -1
    references: tuple[Reference, ...] = ()
    metadata: Tree | None = None
    rule_set: Tree | None = None
    tags_added: Tags = field(default_factory=dict)
    tags_removed: Tags = field(default_factory=dict)
    keeps_tags: bool = False  # the version before hands its tags on

    @property
    def has_tags(self) -> bool:
        return bool(self.tags_added or self.tags_removed or self.keeps_tags)


@dataclass(frozen=True, slots=True)
class TagRequest:
    """What `.../versions/N/tags` changes of a version, to make the next one of it. Version -1 is not given."""

    version: int
    tags_added: Tags
    tags_removed: Tags
    metadata: Tree | None
    rule_set: Tree | None
    rules_merged: Tree | None
    rules_removed: frozenset[str] = frozenset()


def read_body(body: bytes) -> Tree:
    if not body.strip():
        raise RegistryError(422, 422, "The request has no body")
    try:
        tree = decode_json(body)
    except msgspec.DecodeError as error:
        raise MalformedBody(str(error)) from None
    except RecursionError:
        raise MalformedBody("The body is nested too deeply") from None
    except UnicodeDecodeError:
        raise MalformedBody("The body is not UTF-8") from None
    if not isinstance(tree, dict):
        raise MalformedBody("The body is not a JSON object")
    return tree


def schema_request(body: bytes) -> SchemaRequest:
    tree = read_body(body)
    return SchemaRequest(
        text=_text(tree, "schema") or "",
        type=_text(tree, "schemaType") or "AVRO",
        version=_integer(tree, "version", 0),
        id=_integer(tree, "id", -1),
        references=references_from(tree.get("references")),
        metadata=metadata_from(tree.get("metadata")),
        rule_set=rule_set_from(tree.get("ruleSet")),
        tags_added=tags_from(tree.get("schemaTagsToAdd"), "schemaTagsToAdd"),
        tags_removed=tags_from(tree.get("schemaTagsToRemove"), "schemaTagsToRemove"),
        keeps_tags=tree.get("propagateSchemaTags") is True,
    )


def tag_request(body: bytes) -> TagRequest:
    tree = read_body(body)
    removed = tree.get("rulesToRemove") or []
    if not isinstance(removed, list) or not all(isinstance(name, str) for name in removed):
        raise MalformedBody("rulesToRemove is not a list of names")
    request = TagRequest(
        version=_integer(tree, "newVersion", -1),
        tags_added=tags_from(tree.get("tagsToAdd"), "tagsToAdd"),
        tags_removed=tags_from(tree.get("tagsToRemove"), "tagsToRemove"),
        metadata=metadata_from(tree.get("metadata")),
        rule_set=rule_set_from(tree.get("ruleSet")),
        rules_merged=rule_set_from(tree.get("rulesToMerge")),
        rules_removed=frozenset(removed),
    )
    if request.rule_set is not None and (request.rules_merged is not None or removed):
        raise invalid_rule_set("ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
    return request


def config_request(body: bytes) -> Tree:
    """What is to change; a setting that is None goes back to its default."""
    tree = read_body(body)
    changes: Tree = {name: _text(tree, name) for name in TEXT_SETTINGS if name in tree}
    for name in FLAG_SETTINGS:
        if name in tree:
            if tree[name] is not None and not isinstance(tree[name], bool):
                raise MalformedBody(f"{name} is not true or false")
            changes[name] = tree[name]
    given = "compatibilityLevel" if "compatibilityLevel" in tree else "compatibility"
    if given in tree:
        level = _text(tree, given)
        known = None if level is None else Level.named(level)
        if level is not None and known is None:
            raise invalid_level()
        changes["compatibilityLevel"] = None if known is None else known.value
    for name in ("defaultMetadata", "overrideMetadata"):
        if name in tree:
            changes[name] = metadata_from(tree[name])
    for name in ("defaultRuleSet", "overrideRuleSet"):
        if name in tree:
            changes[name] = rule_set_from(tree[name])
    return changes


def mode_request(body: bytes) -> tuple[str | None, Tree]:
    """The mode, and the body to echo."""
    tree = read_body(body)
    mode = _text(tree, "mode")
    if mode is not None and mode.upper() not in MODES:
        raise invalid_mode()
    return (None if mode is None else mode.upper()), ({"mode": mode} if "mode" in tree else {})


def _text(tree: Tree, name: str) -> str | None:
    """A number or a truth value counts as its text, as in Confluent's registry."""
    value = tree.get(name)
    if isinstance(value, int | float):
        return encode_json(value).decode()
    if value is not None and not isinstance(value, str):
        raise MalformedBody(f"{name} is not a string")
    return value


def _integer(tree: Tree, name: str, default: int) -> int:
    value: Any = tree.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 31) <= value < 1 << 31:
        raise MalformedBody(f"{name} is not an integer of 32 bits")
    return value
