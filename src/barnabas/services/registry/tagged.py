"""What has tags: records and fields, by their paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.services.registry.entities import Tree
from barnabas.services.registry.errors import RegistryError, invalid_schema

RECORD, FIELD = "sr_record", "sr_field"


class Entity(NamedTuple):
    path: str
    kind: str


class Place(NamedTuple):
    """An entity in a schema of JSON, and the object that holds its tags. `alias` is a second path it is found by."""

    entity: Entity
    node: Tree
    alias: str = ""


Tags = dict[Entity, list[str]]


def changed(tags: Iterable[str], added: Iterable[str], removed: Iterable[str]) -> list[str]:
    """Tags are added before others are removed."""
    gone = set(removed)
    return [tag for tag in dict.fromkeys([*tags, *added]) if tag not in gone]


def not_found(what: str, name: str) -> RegistryError:
    return invalid_schema(f"No matching {what} '{name}' found in the schema")
