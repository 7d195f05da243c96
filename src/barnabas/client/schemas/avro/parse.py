"""Avro's JSON to `model` objects, with the checks and words of Avro's Java library."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.client.schemas.avro.defaults import is_valid_default
from barnabas.client.schemas.avro.model import (
    MISSING,
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)
from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_text import InvalidJson, Json, read_json, write_json
from barnabas.client.schemas.nesting import JSON_LEVELS_MAX

STRICT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
LENIENT_NAME = re.compile(r"[^\W\d]\w*\Z")
SCHEMA_RESERVED = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
ENUM_RESERVED = SCHEMA_RESERVED | {"default"}
FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
ORDERS = ("ascending", "descending", "ignore")


class Names:
    """The named types seen so far, by full name."""

    def __init__(self) -> None:
        self.types: dict[str, Named] = {}

    def find(self, text: str, namespace: str) -> Named | None:
        if "." in text:
            return self.types.get(text.lstrip(".") if text.startswith(".") else text)
        found = self.types.get(f"{namespace}.{text}") if namespace else None
        return found or self.types.get(text)

    def add(self, named: Named) -> None:
        if named.full_name in self.types:
            raise InvalidSchema(f"Can't redefine: {named.full_name}")
        self.types[named.full_name] = named


def parse_avro(text: str, references: Iterable[str] = (), *, is_new: bool = True) -> tuple[AvroType, list[AvroType]]:
    """The schema, and the referenced ones in the order given. New schemas are held to stricter rules."""
    parser = Parser(is_new)
    try:
        referenced = [parser.parse(read_json(each), "") for each in references]
        root = parser.parse(read_json(text), "")
    except InvalidJson as error:
        raise InvalidSchema(str(error)) from None
    except RecursionError:  # defaults of records that use each other
        raise InvalidSchema("it is nested too deeply") from None
    if referenced and _levels(root) > JSON_LEVELS_MAX:
        raise InvalidSchema("it is nested too deeply with the schemas it refers to")
    return root, referenced


def _levels(root: AvroType) -> int:
    """Of the schema as it is printed with what it refers to: a type is printed where it comes first."""
    deepest, seen, left = 0, set(), [(root, 0)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Record):
            left += [(each.type, level + 3) for each in reversed(node.fields)]
        elif isinstance(node, Union):
            left += [(each, level + 1) for each in reversed(node.branches)]
        elif isinstance(node, Array | Map):
            left.append((node.items if isinstance(node, Array) else node.values, level + 1))
    return deepest


class Parser:
    def __init__(self, is_new: bool) -> None:
        self._names = Names()
        self._is_new = is_new
        self._name = STRICT_NAME if is_new else LENIENT_NAME

    def parse(self, node: Json, namespace: str) -> AvroType:
        if isinstance(node, str):
            return self._by_name(node, namespace)
        if isinstance(node, dict):
            return self._object(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace)
        raise InvalidSchema(f"Schema not yet supported: {write_json(node)}")

    def _by_name(self, text: str, namespace: str) -> AvroType:
        if text in PRIMITIVES:
            return AvroType(text)
        found = self._names.find(text, namespace)
        if found is None:
            raise InvalidSchema(f"Undefined schema: {text}")
        return found

    def _object(self, node: dict[str, Json], namespace: str) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {write_json(node)}")
        parsed: AvroType
        if kind in PRIMITIVES:
            parsed = AvroType(kind)
        elif kind in ("record", "error"):
            return self._record(node, namespace)
        elif kind == "enum":
            return self._enum(node, namespace)
        elif kind == "fixed":
            return self._fixed(node, namespace)
        elif kind == "array":
            if "items" not in node:
                raise InvalidSchema(f"Array has no items type: {write_json(node)}")
            parsed = Array(kind, items=self.parse(node["items"], namespace))
        elif kind == "map":
            if "values" not in node:
                raise InvalidSchema(f"Map has no values type: {write_json(node)}")
            parsed = Map(kind, values=self.parse(node["values"], namespace))
        else:
            found = self._names.find(kind, namespace)
            if found is None:
                raise InvalidSchema(f"Type not supported: {kind}")
            return found
        parsed.properties = _others(node, SCHEMA_RESERVED)
        return parsed

    def _union(self, node: list[Json], namespace: str) -> Union:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for each in node:
            branch = self.parse(each, namespace)
            if isinstance(branch, Union):
                raise InvalidSchema(f"Nested union: {write_json(node)}")
            name = branch.full_name if isinstance(branch, Named) else branch.kind
            if name in seen:
                raise InvalidSchema(f"Duplicate in union:{name}")
            seen.add(name)
            branches.append(branch)
        return Union("union", branches=branches)

    def _record(self, node: dict[str, Json], namespace: str) -> Record:
        record = Record("record", is_error=node["type"] == "error")
        self._begin_named(record, node, namespace, SCHEMA_RESERVED)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Record has no fields: {write_json(node)}")
        seen: set[str] = set()
        for each in fields:
            parsed = self._field(each, record)
            if parsed.name in seen:
                raise InvalidSchema(f"Duplicate field {parsed.name} in record {record.full_name}")
            seen.add(parsed.name)
            record.fields.append(parsed)
        record.complete = True
        return record

    def _field(self, node: Json, record: Record) -> Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise InvalidSchema(f"No field name: {write_json(node)}")
        name = node["name"]
        self._check_name(name)
        if "type" not in node:
            raise InvalidSchema(f"No field type: {write_json(node)}")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            raise InvalidSchema(f"Invalid order {write_json(order)} for field {name}")
        kind = self.parse(node["type"], record.namespace)
        default = node.get("default", MISSING)
        if isinstance(default, str) and kind.kind in ("float", "double"):
            try:
                default = float(default)
            except ValueError:
                raise InvalidSchema(f"Invalid default for field {name}: {write_json(default)}") from None
        if default is not MISSING and self._is_new and not is_valid_default(kind, default):
            from barnabas.client.schemas.avro.canonical import canonical_text

            raise InvalidSchema(f"Invalid default for field {name}: {write_json(default)} not a {canonical_text(kind)}")
        doc = node.get("doc")
        return Field(
            name=name,
            type=kind,
            doc=doc if isinstance(doc, str) else None,
            default=default,
            order=order.lower(),
            aliases=_texts(node.get("aliases")),
            properties=_others(node, FIELD_RESERVED),
        )

    def _enum(self, node: dict[str, Json], namespace: str) -> Enum:
        enum = Enum("enum")
        self._begin_named(enum, node, namespace, ENUM_RESERVED)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"Enum has no symbols: {write_json(node)}")
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise InvalidSchema(f"Enum has no symbols: {write_json(node)}")
            self._check_name(symbol)
        if len(set(symbols)) != len(symbols):
            twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
            raise InvalidSchema(f"Duplicate enum symbol: {twice}")
        enum.symbols = symbols
        default = node.get("default")
        if isinstance(default, str):
            if default not in symbols:
                raise InvalidSchema(
                    f"The Enum Default: {default} is not in the enum symbol set: [{', '.join(symbols)}]"
                )
            enum.default = default
        return enum

    def _fixed(self, node: dict[str, Json], namespace: str) -> Fixed:
        fixed = Fixed("fixed")
        self._begin_named(fixed, node, namespace, SCHEMA_RESERVED)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool):
            raise InvalidSchema(f"Invalid or no size: {write_json(node)}")
        if size < 0:
            raise InvalidSchema(f"Malformed data. Length is negative: {size}")
        fixed.size = size
        return fixed

    def _begin_named(self, named: Named, node: dict[str, Json], namespace: str, reserved: frozenset[str]) -> None:
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"No name in schema: {write_json(node)}")
        space = node.get("namespace")
        named.namespace, named.name = split_name(name, space if isinstance(space, str) else namespace)
        self._check_name(named.name)
        if self._is_new and named.namespace:
            for part in named.namespace.split("."):
                self._check_name(part)
        if named.name in PRIMITIVES and not named.namespace:
            raise InvalidSchema(f"Schemas may not be named after primitives: {named.name}")
        doc = node.get("doc")
        named.doc = doc if isinstance(doc, str) else None
        for alias in _texts(node.get("aliases")):
            alias_space, alias_name = split_name(alias, named.namespace)
            named.aliases.append(f"{alias_space}.{alias_name}" if alias_space else alias_name)
        named.properties = _others(node, reserved)
        self._names.add(named)

    def _check_name(self, name: str) -> None:
        if not name:
            raise InvalidSchema("Empty name")
        if not self._name.match(name):
            raise InvalidSchema(
                f"Illegal character in: {name}" if name[0].isalpha() else f"Illegal initial character: {name}"
            )


def split_name(name: str, namespace: str) -> tuple[str, str]:
    """Namespace and name; a name with dots brings its own namespace."""
    space, dot, last = name.rpartition(".")
    return (space, last) if dot else (namespace, name)


def _texts(node: Json) -> list[str]:
    if node is None:
        return []
    if not isinstance(node, list) or not all(isinstance(each, str) for each in node):
        raise InvalidSchema(f"aliases not an array: {write_json(node)}")
    return list(dict.fromkeys(node))


def _others(node: dict[str, Json], reserved: frozenset[str]) -> dict[str, Json]:
    return {key: value for key, value in node.items() if key not in reserved}
