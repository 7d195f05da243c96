"""Tags inside schemas: `confluent:tags` of records and fields, told and changed by the paths of their entities.

An Avro record's path is its full name, a field's that name, a dot and its own; a record is found by its bare name too.
A JSON Schema's paths go through its objects: `object` is the outermost, `object.street` its property,
`object.address.object.city` a property's property, `object.items.array.object` what an array holds, and
`object.definitions.NAME.object` a definition (`$defs` likewise).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.services.registry.entities import MalformedBody, Tree
from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.records import StoredSchema

TAGS = "confluent:tags"
RECORD, FIELD = "sr_record", "sr_field"
EVERY = "*"


class Entity(NamedTuple):
    path: str
    kind: str


class Place(NamedTuple):
    """An entity in a schema, and the object that holds its tags. `alias` is a second path it is found by."""

    entity: Entity
    node: Tree
    alias: str = ""


Tags = dict[Entity, list[str]]


def tags_from(value: object, name: str) -> Tags:
    """As requests hold them: `[{"schemaEntity": {"entityPath": .., "entityType": ..}, "tags": [..]}]`."""
    tags: Tags = {}
    for each in _list(value or [], name):
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        if not isinstance(entity, dict):
            raise MalformedBody(f"{name} is not a list of entities with tags")
        path, kind = entity.get("entityPath"), entity.get("entityType")
        given = _list(each.get("tags") or [], name)
        if not isinstance(path, str) or kind not in (RECORD, FIELD) or not all(isinstance(tag, str) for tag in given):
            raise MalformedBody(f"{name} holds an entity without a path, of an unknown type or with tags of no text")
        kept = tags.setdefault(Entity(path.removeprefix("."), kind), [])
        kept += [tag for tag in given if tag not in kept]
    return tags


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedBody(f"{name} is not a list")
    return value


def tags_of(schema_type: str, text: str) -> Tags:
    """The tags in a schema, in the order of its entities."""
    found: Tags = {}
    seen: set[int] = set()
    for place in _places(schema_type, _tree(schema_type, text)):
        tags = place.node.get(TAGS)
        if isinstance(tags, list) and id(place.node) not in seen:
            seen.add(id(place.node))
            found[place.entity] = list(dict.fromkeys(map(str, tags)))
    return found


def shown_tags(stored: StoredSchema, wanted: Iterable[str]) -> Tree:
    """What an answer tells of the tags it was asked for."""
    asked = set(wanted)
    shown = [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": tags}
        for entity, tags in (tags_of(stored.type, stored.text).items() if asked else ())
        if EVERY in asked or not asked.isdisjoint(tags)
    ]
    return {"schemaTags": shown} if shown else {}


def with_tags(schema_type: str, text: str, added: Tags, removed: Tags) -> str:
    """The schema with tags added, then others removed."""
    tree = _tree(schema_type, text)
    places = list(_places(schema_type, tree))
    for entity in dict.fromkeys([*added, *removed]):
        node = _find(places, entity)
        tags = [*_texts(node.get(TAGS)), *added.get(entity, ())]
        kept = [tag for tag in dict.fromkeys(tags) if tag not in removed.get(entity, ())]
        if kept:
            node[TAGS] = kept
        else:
            node.pop(TAGS, None)
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _tree(schema_type: str, text: str) -> object:
    if schema_type == "PROTOBUF":
        return None
    try:
        tree: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree


def _find(places: list[Place], wanted: Entity) -> Tree:
    for place in places:
        if place.entity == wanted:
            return place.node
    for place in places:
        if place.entity.kind == wanted.kind and place.alias == wanted.path:
            return place.node
    raise invalid_schema(f"No matching path '{wanted.path}' found in the schema")


def _places(schema_type: str, tree: object) -> Iterator[Place]:
    return _in_avro(tree, "") if schema_type == "AVRO" else _in_json(tree, "")


def _in_avro(node: object, namespace: str) -> Iterator[Place]:
    if isinstance(node, list):
        for each in node:
            yield from _in_avro(each, namespace)
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if kind in ("record", "error"):
        given = str(node.get("name", ""))
        outer, _, bare = given.rpartition(".")
        namespace = outer or str(node.get("namespace", namespace) or "")
        name = f"{namespace}.{bare}" if namespace else bare
        yield Place(Entity(name, RECORD), node, bare)
        for field in node.get("fields") or ():
            if isinstance(field, dict):
                yield Place(Entity(f"{name}.{field.get('name')}", FIELD), field, f"{bare}.{field.get('name')}")
                yield from _in_avro(field.get("type"), namespace)
    elif kind in ("array", "map"):
        yield from _in_avro(node.get("items" if kind == "array" else "values"), namespace)
    else:
        yield from _in_avro(kind, namespace)


def _in_json(node: object, scope: str) -> Iterator[Place]:
    if not isinstance(node, dict):
        return
    properties = node.get("properties")
    if node.get("type") == "object" or isinstance(properties, dict):
        scope += "object"
        for name, each in properties.items() if isinstance(properties, dict) else ():
            if isinstance(each, dict):
                yield Place(Entity(f"{scope}.{name}", FIELD), each)
                yield from _in_json(each, f"{scope}.{name}.")
        yield Place(Entity(scope, RECORD), node)
        for word in ("definitions", "$defs"):
            definitions = node.get(word)
            for name, each in definitions.items() if isinstance(definitions, dict) else ():
                yield from _in_json(each, f"{scope}.{word}.{name}.")
    elif isinstance(node.get("items"), dict):
        yield from _in_json(node["items"], f"{scope}array.")
