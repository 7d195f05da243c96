"""JSON to `model` objects: keywords of all drafts, and `$ref` to places in this schema and in referenced ones.

Nothing is fetched: a reference leads into the schema itself, into a schema that was registered and named among its
references, or to a meta-schema of json-schema.org, which counts as the empty schema here.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from urllib.parse import unquote, urldefrag, urljoin

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_schema.keywords import (
    DEFAULT_DRAFT,
    KEYWORDS,
    check,
    listed,
    mapped,
    named_draft,
    number,
)
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
        self._loaded: dict[int, Schema] = {}
        self._pending: list[tuple[ReferenceSchema, str]] = []
        self._draft = own_draft = named_draft(tree) or DEFAULT_DRAFT
        self._modern = own_draft > DEFAULT_DRAFT
        root = Document(tree, BASE)
        own = tree.get("$id", tree.get("id")) if isinstance(tree, dict) else None
        self._base = _joined(BASE, own) if isinstance(own, str) else BASE
        self._places = {place: (*found, own_draft) for place, found in root.places.items()}
        for name, text in references.items():
            other = read_exact(text)
            named = named_draft(other) or own_draft
            draft = own_draft if self._modern or named > DEFAULT_DRAFT else named  # an older one may name another such
            for address in {_joined(self._base, name), _joined(BASE, name)}:
                for place, found in Document(other, address).places.items():
                    self._places.setdefault(place, (*found, draft))

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
        check(node, self._draft)
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
        keywords = KEYWORDS[self._draft]
        for key in keywords.reference:
            if isinstance(node.get(key), str):
                reference = ReferenceSchema(reference=node[key])
                self._pending.append((reference, base))
                parts.append(reference)
                if not self._modern:
                    return parts
        if "enum" in node:
            parts.append(EnumSchema(values=listed(node, "enum")))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in node:
                parts.append(self._combined(criterion, node, base))
        if "not" in node:
            parts.append(NotSchema(inner=self.schema(node["not"], base)))
        if "const" in node and self._draft > 4:
            parts.append(ConstSchema(value=node["const"]))
        taken = self._explicit(node, base, parts)
        present = node.keys() - taken
        if present & keywords.string:
            parts.append(self._string(node))
        if present & keywords.array:
            parts.append(self._array(node, base))
        if present & keywords.object and not (self._modern and _names_nothing(node, present & keywords.object)):
            parts.append(self._object(node, base))
        if present & keywords.number:
            parts.append(self._number(node))
        if present & keywords.conditional:
            for key in ("if", "then", "else"):
                if key in node:
                    self.schema(node[key], base)
            parts.append(ConditionalSchema())
        for key in ("definitions", "$defs") if node is self._tree else ("$defs",):
            # Older drafts read a definition when something refers to it; beside it there may be comments.
            if self._modern and isinstance(node.get(key), dict):
                for each in node[key].values():
                    self.schema(each, base)
        return parts

    def _combined(self, criterion: str, node: dict[str, Json], base: str) -> CombinedSchema:
        given = listed(node, criterion)
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
        keywords = KEYWORDS[self._draft]
        if kind == "string":
            return self._string(node), keywords.string
        if kind in ("integer", "number"):
            return self._number(node, integer=kind == "integer"), keywords.number
        if kind == "boolean":
            return BooleanSchema(), frozenset()
        if kind == "null":
            return NullSchema(), frozenset()
        if kind == "array":
            return self._array(node, base), keywords.array
        if kind == "object":
            return self._object(node, base), keywords.object
        raise InvalidSchema(f"Invalid JSON schema: unknown type: [{write_exact(kind)}]")

    def _string(self, node: dict[str, Json]) -> StringSchema:
        pattern = node.get("pattern")
        if pattern is not None:
            check_pattern(pattern)
        return StringSchema(
            max_length=number(node, "maxLength"),
            min_length=number(node, "minLength"),
            pattern=pattern,
        )

    def _number(self, node: dict[str, Json], *, integer: bool = False) -> NumberSchema:
        return NumberSchema(
            maximum=number(node, "maximum"),
            minimum=number(node, "minimum"),
            exclusive_maximum=number(node, "exclusiveMaximum"),
            exclusive_minimum=number(node, "exclusiveMinimum"),
            multiple_of=number(node, "multipleOf"),
            integer=integer,
        )

    def _object(self, node: dict[str, Json], base: str) -> ObjectSchema:
        for pattern in mapped(node, "patternProperties"):
            check_pattern(pattern)
        own_id = "id" if self._draft == 4 else "$id"  # in older drafts it stands among properties, too
        schema = ObjectSchema(
            properties={
                key: self.schema(each, base)
                for key, each in mapped(node, "properties").items()
                if self._modern or key != own_id or isinstance(each, dict)
            },
            pattern_properties={
                key: self.schema(each, base) for key, each in mapped(node, "patternProperties").items()
            },
            max_properties=number(node, "maxProperties"),
            min_properties=number(node, "minProperties"),
        )
        schema.required = set(listed(node, "required"))
        additional = node.get("additionalProperties", True)
        if isinstance(additional, bool):
            schema.additional = additional
        else:
            schema.additional_schema = self.schema(additional, base)
        if self._modern and "unevaluatedProperties" in node:
            schema.unevaluated = self.schema(node["unevaluatedProperties"], base)
        # What newer drafts have in two keywords, older ones have in one. Each reads its own only.
        for key, each in mapped(node, "dependentRequired" if self._modern else "dependencies").items():
            if isinstance(each, list):
                schema.property_dependencies[key] = set(each)
            else:
                schema.schema_dependencies[key] = self.schema(each, base)
        for key, each in (mapped(node, "dependentSchemas") if self._modern else {}).items():
            schema.schema_dependencies[key] = self.schema(each, base)
        if "propertyNames" in node and self._draft > 4:
            self.schema(node["propertyNames"], base)
        return schema

    def _array(self, node: dict[str, Json], base: str) -> ArraySchema:
        schema = ArraySchema(
            max_items=number(node, "maxItems"),
            min_items=number(node, "minItems"),
            unique=node.get("uniqueItems") is True,
            max_contains=number(node, "maxContains"),
            min_contains=number(node, "minContains"),
        )
        if self._modern and "contains" not in node:
            schema.max_contains = schema.min_contains = None  # they speak of what is contained
        elif self._modern and schema.min_contains is None:
            schema.min_contains = 1
        prefix, items = node.get("prefixItems") if self._modern else None, node.get("items")
        if isinstance(items, list) and prefix is None:
            prefix, items = items, node.get("additionalItems")
        elif not self._modern and "additionalItems" in node and (items is None or node["additionalItems"] is not False):
            self._additional_items(schema, node["additionalItems"], base)
        if prefix is not None:
            schema.items = [self.schema(each, base) for each in listed({"items": prefix}, "items")]
            if items is not None:
                self._additional_items(schema, items, base)
        elif items is False and self._modern:
            schema.additional = False
        elif items is not None and not (self._modern and items is True):
            schema.all_items = self.schema(items, base)
        if "contains" in node and self._draft > 4:
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
        if (place := self._places.get(address.rstrip("#"))) is not None:
            node, at, self._draft = place
            return self.schema(node, at)
        if (place := self._places.get(whole)) is None:
            raise InvalidSchema(f"Invalid JSON schema: the reference {reference} leads nowhere")
        node, at, self._draft = place
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


def _names_nothing(node: dict[str, Json], present: Set[str]) -> bool:
    """Whether all that is said of objects are properties, and there are none."""
    return all(key in ("properties", "patternProperties") and node[key] == {} for key in present)
