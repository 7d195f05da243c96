"""The parts of a schema's record beside its text: references, metadata and rules, as they are stored and hashed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.services.registry.errors import RegistryError, invalid_rule_set

Tree = dict[str, Any]
CONFLUENT_VERSION = "confluent:version"
CONFLUENT_RESERVED = "confluent:reserved"
RULE_KINDS = ("TRANSFORM", "CONDITION")
MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DOMAIN_MODES = ("WRITE", "READ", "WRITEREAD")
RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")
NAME_MAX = 256


class MalformedBody(RegistryError):
    def __init__(self, message: str) -> None:
        super().__init__(400, 400, message)


class Reference(NamedTuple):
    name: str
    subject: str
    version: int

    def tree(self) -> Tree:
        return {"name": self.name, "subject": self.subject, "version": self.version}


def references_from(value: Any) -> tuple[Reference, ...]:
    if value is None:
        return ()
    found = []
    for each in _a(list, value, "references"):
        _a(dict, each, "references")
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not _is_integer(version):
            shown = f"{{name='{name}', subject='{subject}', version={version}}}"
            raise RegistryError(422, 42201, f"Invalid reference: {shown}")
        found.append(Reference(name, subject, version))
    return tuple(found)


def metadata_from(value: Any) -> Tree | None:
    """Sorted, without what is empty; None if there is none."""
    if value is None:
        return None
    given = _a(dict, value, "metadata")
    tree: Tree = {}
    tags = _a(dict, given.get("tags") or {}, "metadata.tags")
    if tags:
        tree["tags"] = {key: sorted(set(_texts(tags[key], "metadata.tags"))) for key in sorted(tags)}
    properties = _a(dict, given.get("properties") or {}, "metadata.properties")
    if properties:
        tree["properties"] = {key: _text(properties[key], "metadata.properties") for key in sorted(properties)}
    if sensitive := _texts(given.get("sensitive") or [], "metadata.sensitive"):
        tree["sensitive"] = sorted(set(sensitive))
    return tree


def rule_set_from(value: Any) -> Tree | None:
    if value is None:
        return None
    given = _a(dict, value, "ruleSet")
    tree: Tree = {}
    for name in RULE_LISTS:
        if rules := _a(list, given.get(name) or [], f"ruleSet.{name}"):
            tree[name] = [_rule(rule) for rule in rules]
    if given.get("enableAt") is not None:
        tree["enableAt"] = _text(given["enableAt"], "ruleSet.enableAt")
    _check_rules(tree)
    return tree


def _rule(value: Any) -> Tree:
    given = _a(dict, value, "ruleSet")
    tree: Tree = {}
    for key in ("name", "doc"):
        if given.get(key):
            tree[key] = _text(given[key], f"ruleSet.{key}")
    tree["kind"] = _text(given.get("kind") or "TRANSFORM", "ruleSet.kind")
    tree["mode"] = _text(given.get("mode") or "WRITEREAD", "ruleSet.mode")
    if tree["kind"] not in RULE_KINDS or tree["mode"] not in MIGRATION_MODES + DOMAIN_MODES:
        raise MalformedBody(f"ruleSet holds a rule of unknown kind {tree['kind']} or mode {tree['mode']}")
    if given.get("type"):
        tree["type"] = _text(given["type"], "ruleSet.type")
    if tags := _texts(given.get("tags") or [], "ruleSet.tags"):
        tree["tags"] = sorted(set(tags))
    if params := _a(dict, given.get("params") or {}, "ruleSet.params"):
        tree["params"] = {key: _text(params[key], "ruleSet.params") for key in sorted(params)}
    for key in ("expr", "onSuccess", "onFailure"):
        if given.get(key):
            tree[key] = _text(given[key], f"ruleSet.{key}")
    tree["disabled"] = bool(given.get("disabled", False))
    return tree


def _check_rules(tree: Tree) -> None:
    seen: set[str] = set()
    for name in RULE_LISTS:
        allowed = MIGRATION_MODES if name == "migrationRules" else DOMAIN_MODES
        for rule in tree.get(name, ()):
            rule_name = rule.get("name", "")
            _check_rule(rule, rule_name)
            if rule_name in seen:
                raise invalid_rule_set(f"Found rule with duplicate name '{rule_name}'")
            seen.add(rule_name)
            if rule["mode"] not in allowed:
                kind = name.removesuffix("Rules").capitalize()
                raise invalid_rule_set(f"{kind} rules can only be {', '.join(allowed)}")


def _check_rule(rule: Tree, name: str) -> None:
    if not name:
        raise invalid_rule_set("Missing rule name")
    if len(name) > NAME_MAX:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(each.isalnum() or each in "_-" for each in name):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")
    if not rule.get("type"):
        raise invalid_rule_set("Missing rule type")
    if rule["mode"] not in ("WRITEREAD", "UPDOWN") and any(
        "," in rule.get(key, "") for key in ("onSuccess", "onFailure")
    ):
        raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")


def merge_metadata(old: Tree | None, new: Tree | None) -> Tree | None:
    if old is None or new is None:
        return new if old is None else old
    merged: Tree = {}
    for key in ("tags", "properties"):
        if both := {**old.get(key, {}), **new.get(key, {})}:
            merged[key] = {name: both[name] for name in sorted(both)}
    if sensitive := {*old.get("sensitive", ()), *new.get("sensitive", ())}:
        merged["sensitive"] = sorted(sensitive)
    return merged


def merge_rule_sets(old: Tree | None, new: Tree | None) -> Tree | None:
    if old is None or new is None:
        return new if old is None else old
    merged: Tree = {}
    for key in RULE_LISTS:
        later = new.get(key, [])
        names = {rule["name"] for rule in later}
        if rules := [rule for rule in old.get(key, []) if rule["name"] not in names] + later:
            merged[key] = rules
    if enabled := new.get("enableAt") or old.get("enableAt"):
        merged["enableAt"] = enabled
    return merged


def without_rules(rule_set: Tree | None, names: Set[str]) -> Tree | None:
    if rule_set is None or not names:
        return rule_set
    kept = {key: [rule for rule in rule_set.get(key, []) if rule["name"] not in names] for key in RULE_LISTS}
    return {key: each for key, each in rule_set.items() if key not in RULE_LISTS or kept[key]} | {
        key: rules for key, rules in kept.items() if rules
    }


def reserved_fields(metadata: Tree | None) -> set[str]:
    names: str = (metadata or {}).get("properties", {}).get(CONFLUENT_RESERVED, "")
    return {name.strip() for name in names.split(",") if name.strip()}


def confluent_version(metadata: Tree | None) -> str | None:
    version: str | None = (metadata or {}).get("properties", {}).get(CONFLUENT_VERSION)
    return version


def with_confluent_version(metadata: Tree | None, version: int) -> Tree:
    properties = (metadata or {}).get("properties", {}) | {CONFLUENT_VERSION: str(version)}
    return {**(metadata or {}), "properties": {key: properties[key] for key in sorted(properties)}}


def without_confluent_version(metadata: Tree | None) -> Tree:
    tree = dict(metadata or {})
    properties = {key: value for key, value in tree.pop("properties", {}).items() if key != CONFLUENT_VERSION}
    return tree | ({"properties": properties} if properties else {})


def guid_of(text: str, references: Iterable[Reference], metadata: Tree | None, rule_set: Tree | None) -> str:
    """The id that a schema has in every registry: a hash of all that it consists of."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.subject.encode())
        digest.update(struct.pack(">i", reference.version))
    if metadata is not None:
        digest.update(b"\x01")
        for part in _metadata_parts(metadata):
            digest.update(part.encode())
    if rule_set is not None:
        digest.update(b"\x01")
        for name in RULE_LISTS:
            for rule in rule_set.get(name, ()):
                for part in _rule_parts(rule):
                    digest.update(part.encode())
        digest.update(rule_set.get("enableAt", "").encode())
    return str(UUID(bytes=digest.digest()))


def _metadata_parts(metadata: Tree) -> Iterable[str]:
    for key, values in metadata.get("tags", {}).items():
        yield key
        yield from values
    for key, value in metadata.get("properties", {}).items():
        yield key
        yield value
    yield from metadata.get("sensitive", ())


def _rule_parts(rule: Mapping[str, Any]) -> Iterable[str]:
    for key in ("name", "doc", "kind", "mode", "type"):
        yield rule.get(key, "")
    yield from rule.get("tags", ())
    for key, value in rule.get("params", {}).items():
        yield key
        yield value
    for key in ("expr", "onSuccess", "onFailure"):
        yield rule.get(key, "")
    yield "\x01" if rule.get("disabled") else ""


def _a(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise MalformedBody(f"{name} is not {'an object' if kind is dict else 'an array'}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise MalformedBody(f"{name} holds something that is not a string")
    return value


def _texts(value: Any, name: str) -> list[str]:
    return [_text(each, name) for each in _a(list, value, name)]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
