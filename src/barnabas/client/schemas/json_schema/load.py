"""JSON to `model` objects: keywords of all drafts, and `$ref` to places in this schema and in referenced ones.

Nothing is fetched: a reference leads into the schema itself, into a schema that was registered and named among its
references, or to a meta-schema of json-schema.org, which counts as the empty schema here.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from urllib.parse import unquote, urldefrag, urljoin

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_schema.model import (
    NO_DEFAULT,
    ArraySchema,
    BooleanSchema,
    CombinedSchema,
    ConditionalSchema,
    ConstSchema,
    EmptySchema,
    EnumSchema,
    FalseSchema,
    NotSchema,
    NullSchema,
    Number,
    NumberSchema,
    ObjectSchema,
    ReferenceSchema,
    Schema,
    StringSchema,
)
from barnabas.client.schemas.json_schema.patterns import check_pattern
from barnabas.client.schemas.json_schema.text import read_exact, write_exact
from barnabas.client.schemas.json_text import Json

BASE = "mem://input"
META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")
STRING = frozenset({"minLength", "maxLength", "pattern"})
OLDER_STRING = STRING | {"format"}  # a format makes a string schema of its own beside another type
NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
ARRAY = frozenset(
    {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"}
    | {"minContains", "maxContains", "unevaluatedItems"}
)
OBJECT = frozenset(
    {"properties", "required", "minProperties", "maxProperties", "dependencies", "dependentRequired"}
    | {"dependentSchemas", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties"}
)
TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
MODERN = ("2019-09", "2020-12")


class Document:
    """A JSON text and the places in it that have an address."""

    def __init__(self, tree: Json, address: str) -> None:
        self.tree = tree
        self.places: dict[str, tuple[Json, str]] = {}  # by address: the JSON there, and its base
        self._find(tree, address)
        self.places.setdefault(address, (tree, address))

    def _find(self, tree: Json, base: str) -> None:
        stack = [(tree, base)]
        while stack:
            node, base = stack.pop()
            if isinstance(node, list):
                stack += [(each, base) for each in node]
            if not isinstance(node, dict):
                continue
            name = node.get("$id", node.get("id"))
            if isinstance(name, str):
                base = _joined(base, name)
                self.places.setdefault(base.rstrip("#"), (node, base))
            for anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
                if isinstance(anchor, str):
                    self.places.setdefault(f"{urldefrag(base)[0]}#{anchor}", (node, base))
            stack += [(each, base) for key, each in node.items() if key not in ("enum", "const", "default", "examples")]


class Loader:
    def __init__(self, tree: Json, references: Mapping[str, str]) -> None:
        self._tree = tree
        self._documents: dict[str, Document] = {}
        self._loaded: dict[int, Schema] = {}
        self._pending: list[tuple[ReferenceSchema, str]] = []
        root = Document(tree, BASE)
        own = tree.get("$id", tree.get("id")) if isinstance(tree, dict) else None
        self._base = _joined(BASE, own) if isinstance(own, str) else BASE
        self._places = dict(root.places)
        for name, text in references.items():
            other = read_exact(text)
            for address in {_joined(self._base, name), _joined(BASE, name)}:
                for place, found in Document(other, address).places.items():
                    self._places.setdefault(place, found)
        dialect = tree.get("$schema") if isinstance(tree, dict) else None
        self._modern = isinstance(dialect, str) and any(each in dialect for each in MODERN)

    def load(self) -> Schema:
        try:
            root = self.schema(self._tree, self._base)
            while self._pending:
                reference, base = self._pending.pop()
                reference.target = self._resolve(reference.reference, base)
            return root
        except RecursionError:
            raise InvalidSchema("Invalid JSON schema: it is nested too deeply") from None

    def schema(self, node: Json, base: str) -> Schema:
        if node is True:
            return EmptySchema()
        if node is False:
            return FalseSchema()
        if not isinstance(node, dict):
            raise InvalidSchema(f"Invalid JSON schema: {write_exact(node)[:200]} is neither an object nor a boolean")
        known = self._loaded.get(id(node))
        if known is not None:
            return known
        name = node.get("$id", node.get("id"))
        if isinstance(name, str) and node is not self._tree:
            base = _joined(base, name)
        parts = self._parts(node, base)
        schema: Schema
        if len(parts) == 1:
            schema = parts[0]
        elif parts:
            texts = [f"{type(each).__name__}{index}" for index, each in enumerate(parts)]
            schema = CombinedSchema(criterion="allOf", parts=parts, texts=texts)
        else:
            schema = EmptySchema()
        self._loaded[id(node)] = schema
        schema.id = name if isinstance(name, str) else schema.id
        for key in ("title", "description"):
            if isinstance(node.get(key), str):
                setattr(schema, key, node[key])
        default = node.get("default", NO_DEFAULT)
        no_default = default is NO_DEFAULT or (default is None and self._modern)  # a null of newer drafts is none
        if not no_default:
            schema.default = default
        schema.unknown = {key: node[key] for key in ("connect.type",) if key in node}
        return schema

    def _parts(self, node: dict[str, Json], base: str) -> list[Schema]:
        """A schema for each kind of thing that the object speaks of."""
        parts: list[Schema] = []
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(node.get(key), str):
                reference = ReferenceSchema(reference=node[key])
                self._pending.append((reference, base))
                parts.append(reference)
                if not self._modern:
                    return parts
        if "enum" in node:
            parts.append(EnumSchema(values=_list(node, "enum")))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in node:
                parts.append(self._combined(criterion, node, base))
        if "not" in node:
            parts.append(NotSchema(inner=self.schema(node["not"], base)))
        if "const" in node:
            parts.append(ConstSchema(value=node["const"]))
        taken = self._explicit(node, base, parts)
        present = node.keys() - taken
        if present & (STRING if self._modern else OLDER_STRING):
            parts.append(self._string(node))
        if present & ARRAY:
            parts.append(self._array(node, base))
        if present & OBJECT and not (self._modern and present & OBJECT == {"properties"} and node["properties"] == {}):
            parts.append(self._object(node, base))
        if present & NUMBER:
            parts.append(self._number(node))
        if present & {"if", "then", "else"}:
            for key in ("if", "then", "else"):
                if key in node:
                    self.schema(node[key], base)
            parts.append(ConditionalSchema())
        for key in ("definitions", "$defs"):
            # Older drafts read a definition when something refers to it; beside it there may be comments.
            if self._modern and isinstance(node.get(key), dict):
                for each in node[key].values():
                    self.schema(each, base)
        return parts

    def _combined(self, criterion: str, node: dict[str, Json], base: str) -> CombinedSchema:
        given = _list(node, criterion)
        if not given:
            raise InvalidSchema(f"Invalid JSON schema: {criterion} is empty")
        return CombinedSchema(
            criterion=criterion,
            parts=[self.schema(each, base) for each in given],
            texts=[write_exact(each, ordered=True) for each in given],
        )

    def _explicit(self, node: dict[str, Json], base: str, parts: list[Schema]) -> frozenset[str]:
        """The schemas of `type`; the keywords that they took."""
        kind = node.get("type")
        if kind is None:
            return frozenset()
        if isinstance(kind, list):
            typed = [self._typed(each, node, base) for each in kind]
            texts = [write_exact(each) for each in kind]
            parts.append(CombinedSchema(criterion="anyOf", parts=[each for each, _ in typed], texts=texts))
            return frozenset().union(*(taken for _, taken in typed)) if typed else frozenset()
        schema, taken = self._typed(kind, node, base)
        parts.append(schema)
        return taken

    def _typed(self, kind: Json, node: dict[str, Json], base: str) -> tuple[Schema, frozenset[str]]:
        if kind == "string":
            return self._string(node), OLDER_STRING
        if kind in ("integer", "number"):
            return self._number(node, integer=kind == "integer"), NUMBER
        if kind == "boolean":
            return BooleanSchema(), frozenset()
        if kind == "null":
            return NullSchema(), frozenset()
        if kind == "array":
            return self._array(node, base), ARRAY
        if kind == "object":
            return self._object(node, base), OBJECT
        raise InvalidSchema(f"Invalid JSON schema: unknown type: [{write_exact(kind)}]")

    def _string(self, node: dict[str, Json]) -> StringSchema:
        if (pattern := _text(node, "pattern")) is not None:
            check_pattern(pattern)
        return StringSchema(
            max_length=_number(node, "maxLength"),
            min_length=_number(node, "minLength"),
            pattern=pattern,
        )

    def _number(self, node: dict[str, Json], *, integer: bool = False) -> NumberSchema:
        # In draft 4 the exclusive ones are booleans beside a limit.
        exclusive = {
            key: None if isinstance(node.get(key), bool) else _number(node, key)
            for key in ("exclusiveMaximum", "exclusiveMinimum")
        }
        return NumberSchema(
            maximum=_number(node, "maximum"),
            minimum=_number(node, "minimum"),
            exclusive_maximum=exclusive["exclusiveMaximum"],
            exclusive_minimum=exclusive["exclusiveMinimum"],
            multiple_of=_number(node, "multipleOf"),
            integer=integer,
        )

    def _object(self, node: dict[str, Json], base: str) -> ObjectSchema:
        for pattern in _object(node, "patternProperties"):
            check_pattern(pattern)
        schema = ObjectSchema(
            properties={key: self.schema(each, base) for key, each in _object(node, "properties").items()},
            pattern_properties={
                key: self.schema(each, base) for key, each in _object(node, "patternProperties").items()
            },
            max_properties=_number(node, "maxProperties"),
            min_properties=_number(node, "minProperties"),
        )
        if not isinstance(node.get("required"), bool):  # in draft 3 it was one
            schema.required = {each for each in _list(node, "required") if isinstance(each, str)}
        additional = node.get("additionalProperties", True)
        if isinstance(additional, bool):
            schema.additional = additional
        else:
            schema.additional_schema = self.schema(additional, base)
        if self._modern and "unevaluatedProperties" in node:
            schema.unevaluated = self.schema(node["unevaluatedProperties"], base)
        # What newer drafts have in two keywords, older ones have in one. Each reads its own only.
        for key, each in _object(node, "dependentRequired" if self._modern else "dependencies").items():
            if isinstance(each, list):
                schema.property_dependencies[key] = {name for name in each if isinstance(name, str)}
            else:
                schema.schema_dependencies[key] = self.schema(each, base)
        for key, each in (_object(node, "dependentSchemas") if self._modern else {}).items():
            schema.schema_dependencies[key] = self.schema(each, base)
        if "propertyNames" in node:
            self.schema(node["propertyNames"], base)
        return schema

    def _array(self, node: dict[str, Json], base: str) -> ArraySchema:
        schema = ArraySchema(
            max_items=_number(node, "maxItems"),
            min_items=_number(node, "minItems"),
            unique=node.get("uniqueItems") is True,
            max_contains=_number(node, "maxContains"),
            min_contains=_number(node, "minContains"),
        )
        if self._modern and "contains" not in node:
            schema.max_contains = schema.min_contains = None  # they speak of what is contained
        elif self._modern and schema.min_contains is None:
            schema.min_contains = 1
        prefix, items = node.get("prefixItems") if self._modern else None, node.get("items")
        if isinstance(items, list) and prefix is None:
            prefix, items = items, node.get("additionalItems")
        elif prefix is None and "additionalItems" in node and (items is None or node["additionalItems"] is not False):
            self._additional_items(schema, node["additionalItems"], base)
        if prefix is not None:
            schema.items = [self.schema(each, base) for each in _list({"items": prefix}, "items")]
            if items is not None:
                self._additional_items(schema, items, base)
        elif items is False and self._modern:
            schema.additional = False
        elif items is not None and not (self._modern and items is True):
            schema.all_items = self.schema(items, base)
        if "contains" in node:
            self.schema(node["contains"], base)
        if self._modern and "unevaluatedItems" in node:
            schema.unevaluated = self.schema(node["unevaluatedItems"], base)
        return schema

    def _additional_items(self, schema: ArraySchema, node: Json, base: str) -> None:
        if isinstance(node, bool):
            schema.additional = node
        else:
            schema.additional_schema = self.schema(node, base)

    def _resolve(self, reference: str, base: str) -> Schema:
        address = _joined(base, reference)
        if address.startswith(META_SCHEMAS):
            return EmptySchema()
        whole, fragment = urldefrag(address)
        found = self._places.get(address.rstrip("#")) or self._places.get(whole)
        if self._places.get(address.rstrip("#")) is not None:
            node, at = self._places[address.rstrip("#")]
            return self.schema(node, at)
        if found is None:
            raise InvalidSchema(f"Invalid JSON schema: the reference {reference} leads nowhere")
        node, at = found
        return self.schema(_pointed(node, fragment, reference), at)


def _pointed(tree: Json, fragment: str, reference: str) -> Json:
    node = tree
    steps = [unquote(each).replace("~1", "/").replace("~0", "~") for each in fragment.split("/")[1:]]
    if fragment and not fragment.startswith("/"):
        steps = [fragment]
    for index, step in enumerate(steps):
        if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
            continue
        if isinstance(node, dict) and step not in node and not index and step == "$defs":
            step = "definitions"  # either name is taken for the other
        if not isinstance(node, dict) or step not in node:
            raise InvalidSchema(f"Invalid JSON schema: the reference {reference} leads nowhere")
        node = node[step]
    return node


def _joined(base: str, reference: str) -> str:
    try:
        if base.startswith("mem:"):
            # urljoin knows no scheme of this name.
            return urljoin(base.replace("mem:", "http:", 1), reference).replace("http://input", "mem://input", 1)
        return urljoin(base, reference)
    except ValueError:
        raise InvalidSchema(f"Invalid JSON schema: {reference} is not a reference") from None


def _number(node: dict[str, Json], key: str) -> Number | None:
    value = node.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise InvalidSchema(f"Invalid JSON schema: #/{key}: expected type: Number, found: {write_exact(value)[:200]}")
    return value


def _text(node: dict[str, Json], key: str) -> str | None:
    value = node.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidSchema(f"Invalid JSON schema: #/{key}: expected type: String, found: {write_exact(value)[:200]}")
    return value


def _list(node: dict[str, Json], key: str) -> list[Json]:
    value = node.get(key, [])
    if not isinstance(value, list):
        raise InvalidSchema(
            f"Invalid JSON schema: #/{key}: expected type: JsonArray, found: {write_exact(value)[:200]}"
        )
    return value


def _object(node: dict[str, Json], key: str) -> dict[str, Json]:
    value = node.get(key, {})
    if not isinstance(value, dict):
        raise InvalidSchema(
            f"Invalid JSON schema: #/{key}: expected type: JsonObject, found: {write_exact(value)[:200]}"
        )
    return value
