"""The text of an Avro schema, as Avro's Java library prints it, and its normal form."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.schemas.avro.model import (
    MISSING,
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
from barnabas.client.schemas.json_text import Json, write_json

TYPE_NAMES = frozenset(
    {"record", "enum", "array", "map", "union", "fixed", "string", "bytes"}
    | {"int", "long", "float", "double", "boolean", "null"}
)
LOGICAL_TYPES = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string",),
    "big-decimal": ("bytes",),
}
UUID_BYTES, DURATION_BYTES = 16, 12


def canonical_text(schema: AvroType, referenced: Iterable[AvroType] = ()) -> str:
    """Types of the referenced schemas are named, not repeated."""
    known = {each.full_name for each in referenced if isinstance(each, Named)}
    return write_json(_tree(schema, "", known))


def _tree(schema: AvroType, namespace: str, known: set[str]) -> Json:
    if isinstance(schema, Named):
        if schema.full_name in known:
            return qualified(schema.full_name, namespace)
        known.add(schema.full_name)
        return _named(schema, namespace, known)
    if isinstance(schema, Union):
        return [_tree(branch, namespace, known) for branch in schema.branches]
    if isinstance(schema, Array):
        return {"type": "array", "items": _tree(schema.items, namespace, known)} | schema.properties
    if isinstance(schema, Map):
        return {"type": "map", "values": _tree(schema.values, namespace, known)} | schema.properties
    return {"type": schema.kind} | schema.properties if schema.properties else schema.kind


def _named(schema: Named, namespace: str, known: set[str]) -> dict[str, Json]:
    is_error = isinstance(schema, Record) and schema.is_error
    tree: dict[str, Json] = {"type": "error" if is_error else schema.kind, "name": schema.name}
    if schema.namespace != namespace:
        tree["namespace"] = schema.namespace
    if schema.doc is not None:
        tree["doc"] = schema.doc
    if isinstance(schema, Record):
        tree["fields"] = [_field(each, schema.namespace, known) for each in schema.fields]
    elif isinstance(schema, Enum):
        tree["symbols"] = schema.symbols
        if schema.default is not None:
            tree["default"] = schema.default
    elif isinstance(schema, Fixed):
        tree["size"] = schema.size
    tree |= schema.properties
    if schema.aliases:
        tree["aliases"] = [qualified(alias, schema.namespace) for alias in schema.aliases]
    return tree


def _field(field: Field, namespace: str, known: set[str]) -> dict[str, Json]:
    tree: dict[str, Json] = {"name": field.name, "type": _tree(field.type, namespace, known)}
    if field.doc is not None:
        tree["doc"] = field.doc
    if field.default is not MISSING:
        tree["default"] = field.default
    if field.order != "ascending":
        tree["order"] = field.order
    if field.aliases:
        tree["aliases"] = field.aliases
    return tree | field.properties


def qualified(full_name: str, namespace: str) -> str:
    """Short where the enclosing namespace makes it clear."""
    space, _, name = full_name.rpartition(".")
    return name if space == namespace and name not in TYPE_NAMES else full_name


def normalize(schema: AvroType, seen: set[int] | None = None) -> None:
    """Changes a schema to its normal form: properties and aliases in order, no empty docs."""
    seen = set() if seen is None else seen
    if id(schema) in seen:
        return
    seen.add(id(schema))
    schema.properties = _sorted_properties(schema)
    if isinstance(schema, Named):
        schema.doc = schema.doc or None
        schema.aliases.sort()
    if isinstance(schema, Record):
        for field in schema.fields:
            field.aliases.sort()
            field.properties = {key: sort_keys(field.properties[key]) for key in sorted(field.properties)}
            if field.default is not MISSING:
                field.default = sort_keys(as_typed(field.type, field.default))
            normalize(field.type, seen)
    elif isinstance(schema, Array):
        normalize(schema.items, seen)
    elif isinstance(schema, Map):
        normalize(schema.values, seen)
    elif isinstance(schema, Union):
        for branch in schema.branches:
            normalize(branch, seen)


def _sorted_properties(schema: AvroType) -> dict[str, Json]:
    properties = schema.properties
    leading = _logical_properties(schema)
    return leading | {key: sort_keys(properties[key]) for key in sorted(properties) if key not in leading}


def _logical_properties(schema: AvroType) -> dict[str, Json]:
    """Those of a logical type that Avro knows and that fits; they come first."""
    given = schema.properties
    name = given.get("logicalType")
    size = schema.size if isinstance(schema, Fixed) else -1
    if name == "decimal" and schema.kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int) and precision > 0 and 0 <= scale <= precision):
            return {}
        return {key: given[key] for key in ("logicalType", "precision", "scale") if given.get(key)}
    fits = schema.kind in LOGICAL_TYPES.get(name, ()) if isinstance(name, str) else False
    if fits or (name == "uuid" and size == UUID_BYTES) or (name == "duration" and size == DURATION_BYTES):
        return {"logicalType": name}
    return {}


def sort_keys(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(each) for each in value] if isinstance(value, list) else value


def as_typed(kind: AvroType, value: Json) -> Json:
    """A whole number where the type is a floating one is printed with its point."""
    if kind.kind in ("float", "double") and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, Array) and isinstance(value, list):
        return [as_typed(kind.items, each) for each in value]
    if isinstance(kind, Map) and isinstance(value, dict):
        return {key: as_typed(kind.values, each) for key, each in value.items()}
    if isinstance(kind, Record) and isinstance(value, dict):
        types = {field.name: field.type for field in kind.fields}
        return {key: as_typed(types[key], each) if key in types else each for key, each in value.items()}
    return value
