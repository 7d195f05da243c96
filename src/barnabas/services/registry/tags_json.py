"""Where JSON Schemas hold tags, and the paths of those places.

A path goes through what a schema is: `object` is the outermost object, `object.street` its property,
`object.address.object.city` a property's property, `array.object` what an array holds, `oneof.1.object` an alternative
(they are numbered in the order of Confluent's comparison, not in that of the text), `conditional.then.object` a branch,
`not.object` what is excluded, and `object.definitions.NAME.object` a definition (`$defs` likewise). Where one schema
speaks of several things, they are numbered as those of an `allof`, and the types of a list as those of an `anyof`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.schemas.json_schema.keywords import DEFAULT_DRAFT, KEYWORDS, named_draft
from barnabas.services.registry.entities import Tree
from barnabas.services.registry.tagged import FIELD, RECORD, Entity, Place

CRITERIA = {"allOf": "allof", "anyOf": "anyof", "oneOf": "oneof"}
BRANCHES = ("if", "then", "else")
TYPED = {"integer": "NUMBER"}  # others are called like their type
Order = tuple[Any, ...]


@dataclass(slots=True)
class Part:
    """What one schema says of one thing. The names of kinds are in the order of Confluent's comparison."""

    kind: str
    node: Tree
    criterion: str = ""
    alternatives: list[object] = field(default_factory=list)
    types: list[Part] = field(default_factory=list)


def places_in_json(tree: object) -> Iterator[Place]:
    yield from _Walk(named_draft(tree) or DEFAULT_DRAFT).schema(tree, "", "")


class _Walk:
    """`path` ends in a dot; `alias` is the path without the numbers of what is an `allof` or `anyof` unsaid."""

    def __init__(self, draft: int) -> None:
        self._modern = draft > DEFAULT_DRAFT
        self._keywords = KEYWORDS[draft]
        self._orders: dict[int, Order] = {}

    def schema(self, node: object, path: str, alias: str) -> Iterator[Place]:
        if not isinstance(node, dict):
            return
        parts = self._parts(node)
        if len(parts) == 1:
            yield from self._part(parts[0], path, alias)
            return
        for index, part in enumerate(sorted(parts, key=self._part_order)):
            yield from self._part(part, f"{path}allof.{index}.", alias)

    def _part(self, part: Part, path: str, alias: str) -> Iterator[Place]:
        if part.kind == "OBJECT":
            yield from self._object(part.node, f"{path}object", f"{alias}object")
        elif part.kind == "ARRAY":
            yield from self.schema(part.node.get("items"), f"{path}array.", f"{alias}array.")
        elif part.kind == "NOT":
            yield from self.schema(part.node["not"], f"{path}not.", f"{alias}not.")
        elif part.kind == "CONDITIONAL":
            for word in BRANCHES:
                yield from self.schema(part.node.get(word), f"{path}conditional.{word}.", f"{alias}conditional.{word}.")
        elif part.types:
            for index, each in enumerate(sorted(part.types, key=self._part_order)):
                yield from self._part(each, f"{path}anyof.{index}.", alias)
        elif part.kind == "COMBINED":
            for index, inner in enumerate(sorted(part.alternatives, key=self._order)):
                step = f"{part.criterion}.{index}."
                yield from self.schema(inner, path + step, alias + step)

    def _object(self, node: Tree, path: str, alias: str) -> Iterator[Place]:
        properties = node.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            if isinstance(each, dict):
                yield Place(Entity(f"{path}.{name}", FIELD), each, f"{alias}.{name}")
                yield from self.schema(each, f"{path}.{name}.", f"{alias}.{name}.")
        yield Place(Entity(path, RECORD), node, alias)
        for word in ("definitions", "$defs"):
            definitions = node.get(word)
            for name, each in definitions.items() if isinstance(definitions, dict) else ():
                yield from self.schema(each, f"{path}.{word}.{name}.", f"{alias}.{word}.{name}.")

    def _parts(self, node: Tree) -> list[Part]:
        parts: list[Part] = []
        if isinstance(node.get("$ref"), str):
            parts.append(Part("REFERENCE", node))
            if not self._modern:
                return parts
        if "enum" in node:
            parts.append(Part("ENUM", node))
        for word, criterion in CRITERIA.items():
            if isinstance(node.get(word), list):
                parts.append(Part("COMBINED", node, criterion, node[word]))
        for word, kind in (("not", "NOT"), ("const", "CONST")):
            if word in node:
                parts.append(Part(kind, node))
        parts += _typed(node)
        kinds = {kind for part in parts for kind in (part.kind, *(each.kind for each in part.types))}
        keywords = self._keywords
        for words, kind in (
            (keywords.string, "STRING"),
            (keywords.array, "ARRAY"),
            (keywords.object, "OBJECT"),
            (keywords.number, "NUMBER"),
        ):
            if kind not in kinds and node.keys() & words:
                parts.append(Part(kind, node))
        if node.keys() & keywords.conditional:
            parts.append(Part("CONDITIONAL", node))
        return parts

    def _order(self, node: object) -> Order:
        """Compares as Confluent's registry compares schemas: by kind, title, description, default and content."""
        if not isinstance(node, dict):
            return ("FALSE" if node is False else "TRUE", (), (), ())
        known = self._orders.get(id(node))
        if known is None:
            parts = self._parts(node)
            if len(parts) == 1:
                kind, content = parts[0].kind, self._content(parts[0])
            elif parts:
                kind, content = "COMBINED", ("allof", len(parts), sorted(map(self._part_order, parts)))
            else:
                kind, content = "EMPTY", ()
            texts = (node.get("title"), node.get("description"), node.get("default"))
            known = kind, *((each is not None, str(each)) for each in texts), content
            self._orders[id(node)] = known
        return known

    def _part_order(self, part: Part) -> Order:
        return part.kind, self._content(part)

    def _content(self, part: Part) -> Order:
        node = part.node
        if part.kind == "OBJECT":
            return _counted(node.get("properties")) + _counted(node.get("required"))
        if part.kind == "ARRAY":
            return (self._order(node["items"]),) if isinstance(node.get("items"), dict) else ()
        if part.kind == "COMBINED":
            inner = map(self._part_order, part.types) if part.types else map(self._order, part.alternatives)
            orders = sorted(inner)
            return part.criterion, len(orders), orders
        if part.kind == "CONDITIONAL":
            return tuple(self._order(node.get(word, {})) for word in BRANCHES)
        if part.kind == "NOT":
            return (self._order(node["not"]),)
        if part.kind == "ENUM":
            return _counted(node["enum"])
        return (str(node["const"]),) if part.kind == "CONST" else ()


def _typed(node: Tree) -> list[Part]:
    kind = node.get("type")
    if isinstance(kind, str):
        return [Part(TYPED.get(kind, kind.upper()), node)]
    if isinstance(kind, list):
        types = [Part(TYPED.get(each, each.upper()), node) for each in kind if isinstance(each, str)]
        return [Part("COMBINED", node, "anyof", types=types)]
    return []


def _counted(values: object) -> Order:
    listed = sorted(map(str, values)) if isinstance(values, list | dict) else []
    return len(listed), listed
