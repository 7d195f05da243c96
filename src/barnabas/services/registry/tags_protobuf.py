"""Where .proto files hold tags: `confluent.message_meta` of messages and `confluent.field_meta` of their fields.

A message's path is its name after those of the messages around it, without the package; a field's that path, a dot and
its own name, and the name of its oneof may stand between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.client.schemas.protobuf.elements import Message, Option
from barnabas.client.schemas.protobuf.schema import read_schema
from barnabas.client.schemas.protobuf.show import Printer
from barnabas.services.registry.tagged import FIELD, RECORD, Entity, Tags, changed, not_found

META = {RECORD: "confluent.message_meta", FIELD: "confluent.field_meta"}
TAGS = "tags"


class Tagged(NamedTuple):
    entity: Entity
    options: list[Option]
    alias: str


def tags_in_protobuf(text: str) -> Tags:
    found = ((each.entity, _tags(_meta(each))) for each in _places(read_schema(text).types, ""))
    return {entity: tags for entity, tags in found if tags}


def with_protobuf_tags(text: str, added: Tags, removed: Tags) -> str:
    file = read_schema(text)
    places = list(_places(file.types, ""))
    for entity in dict.fromkeys([*added, *removed]):
        place = _find(places, entity)
        meta = _meta(place)
        kept = changed(_tags(meta), added.get(entity, ()), removed.get(entity, ()))
        name = META[entity.kind]
        value = {key: each for key, each in meta.items() if key != TAGS or kept} | ({TAGS: kept} if kept else {})
        at = next((index for index, each in enumerate(place.options) if _is_meta(each, name)), len(place.options))
        before = place.options[:at]
        after = [each for each in place.options[at:] if not _is_meta(each, name)]
        place.options[:] = [*before, *([Option(name, value, parenthesized=True)] if value else []), *after]
    return Printer().file(file)


def _find(places: list[Tagged], wanted: Entity) -> Tagged:
    for place in places:
        if place.entity == wanted or (place.entity.kind == wanted.kind and place.alias == wanted.path):
            return place
    kind = "Message" if wanted.kind == RECORD else "Field"
    raise not_found(f"{kind} with name", wanted.path.rpartition(".")[2])


def _places(types: Iterable[object], scope: str) -> Iterator[Tagged]:
    for message in types:
        if not isinstance(message, Message):
            continue
        name = scope + message.name
        yield Tagged(Entity(name, RECORD), message.options, name)
        for one_of in message.one_ofs:
            for each in one_of.fields:
                yield Tagged(Entity(f"{name}.{each.name}", FIELD), each.options, f"{name}.{one_of.name}.{each.name}")
        for each in message.fields:
            path = f"{name}.{each.name}"
            yield Tagged(Entity(path, FIELD), each.options, path)
        yield from _places(message.types, f"{name}.")


def _meta(place: Tagged) -> dict[str, object]:
    """Both ways to write it, `(name) = {tags: ..}` and `(name).tags = ..`, may stand side by side."""
    meta: dict[str, object] = {}
    for option in place.options:
        if not _is_meta(option, META[place.entity.kind]):
            continue
        given = {option.value.name: option.value.value} if isinstance(option.value, Option) else option.value
        for key, value in given.items() if isinstance(given, dict) else ():
            meta[key] = _listed(meta[key]) + _listed(value) if key in meta else value
    return meta


def _is_meta(option: Option, name: str) -> bool:
    return option.parenthesized and option.name.removeprefix(".") == name


def _tags(meta: dict[str, object]) -> list[str]:
    return list(dict.fromkeys(each for each in _listed(meta.get(TAGS, [])) if isinstance(each, str)))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
