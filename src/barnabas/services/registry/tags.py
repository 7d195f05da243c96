"""Tags inside schemas: `confluent:tags` of records and fields, told and changed by the paths of their entities.

An Avro record's path is its full name, a field's that name, a dot and its own; a record is found by its bare name too.
For the paths of JSON Schemas see `tags_json`, for those of Protobuf `tags_protobuf`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from barnabas.client.schemas import InvalidSchema
from barnabas.services.registry.entities import MalformedBody, Tree
from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.records import StoredSchema
from barnabas.services.registry.tagged import FIELD, RECORD, Entity, Place, Tags, changed, not_found
from barnabas.services.registry.tags_json import places_in_json
from barnabas.services.registry.tags_protobuf import tags_in_protobuf, with_protobuf_tags

TAGS = "confluent:tags"
EVERY = "*"


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
    try:
        return tags_in_protobuf(text) if schema_type == "PROTOBUF" else _tags_in_tree(schema_type, _tree(text))
    except (InvalidSchema, RecursionError):
        return {}


def _tags_in_tree(schema_type: str, tree: object) -> Tags:
    found: Tags = {}
    seen: set[int] = set()
    for place in _places(schema_type, tree):
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
    try:
        if schema_type == "PROTOBUF":
            return with_protobuf_tags(text, added, removed)
        return _with_tags_in_tree(schema_type, _tree(text), added, removed)
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from None
    except RecursionError:
        raise invalid_schema("The schema is nested too deeply") from None


def _with_tags_in_tree(schema_type: str, tree: object, added: Tags, removed: Tags) -> str:
    places = list(_places(schema_type, tree))
    for entity in dict.fromkeys([*added, *removed]):
        node = _find(places, entity)
        if kept := changed(_texts(node.get(TAGS)), added.get(entity, ()), removed.get(entity, ())):
            node[TAGS] = kept
        else:
            node.pop(TAGS, None)
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _tree(text: str) -> object:
    try:
        tree: object = json.loads(text)
    except ValueError:
        return None
    return tree


def _find(places: list[Place], wanted: Entity) -> Tree:
    for place in places:
        if place.entity == wanted:
            return place.node
    for place in places:
        if place.entity.kind == wanted.kind and place.alias == wanted.path:
            return place.node
    raise not_found("path", wanted.path)


def _places(schema_type: str, tree: object) -> Iterator[Place]:
    return _in_avro(tree, "") if schema_type == "AVRO" else places_in_json(tree)


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
