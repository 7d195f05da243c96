"""What has changed from one JSON schema to another, by Confluent's rules.

An object or array is open if anything may stand beside what is named, closed if nothing may, and partially open if
something of a certain schema may. Adding a property to an open one is a narrowing, for data written before may hold
anything under that name; removing one from a closed one is too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from barnabas.client.schemas.hash_order import in_hash_order
from barnabas.client.schemas.json_schema.differences import Difference
from barnabas.client.schemas.json_schema.matching import matched
from barnabas.client.schemas.json_schema.model import (
    NO_DEFAULT,
    ArraySchema,
    CombinedSchema,
    ConstSchema,
    EmptySchema,
    EnumSchema,
    FalseSchema,
    NotSchema,
    Number,
    NumberSchema,
    ObjectSchema,
    ReferenceSchema,
    Schema,
    StringSchema,
)
from barnabas.client.schemas.json_schema.patterns import fits
from barnabas.client.schemas.json_schema.text import write_exact

STEPS_MAX = 50_000


class TooComplex(ValueError):
    """Comparing takes more steps than anybody should wait for."""


def differences(old: Schema, new: Schema) -> list[Difference]:
    comparison = Comparison((), frozenset(), [STEPS_MAX])
    comparison.compare(old, new)
    return comparison.found


class Comparison:
    def __init__(self, path: tuple[str, ...], entered: frozenset[int], steps: list[int]) -> None:
        self.found: list[Difference] = []
        self._path = list(path)
        self._entered = set(entered)
        self._steps = steps

    def compare(self, old: Schema | None, new: Schema | None) -> None:
        self._steps[0] -= 1
        if self._steps[0] < 0:
            raise TooComplex
        if old is None or new is None:
            if old is not new:
                self._add("SCHEMA_ADDED" if old is None else "SCHEMA_REMOVED")
            return
        old, new = _followed(old), _followed(new)
        if self._one_is_combined(old, new):
            return
        if type(old) is not type(new):
            both_bytes = old.unknown.get("connect.type") == new.unknown.get("connect.type") == "bytes"
            if not isinstance(old, FalseSchema) and not isinstance(new, EmptySchema) and not both_bytes:
                self._add("TYPE_CHANGED")
            return
        if id(old) in self._entered:
            return
        self._entered.add(id(old))
        try:
            self._same_type(old, new)
        finally:
            self._entered.discard(id(old))

    def _one_is_combined(self, old: Schema, new: Schema) -> bool:
        """A schema beside a combination with a part that it fits."""
        if isinstance(new, CombinedSchema) and not isinstance(old, CombinedSchema):
            if len(new.parts) == 1:
                return self._take_if_compatible(old, new.parts[0])
            if new.criterion != "allOf":
                return any(self._take_if_compatible(old, part, "SUM_TYPE_EXTENDED") for part in new.parts)
        if isinstance(old, CombinedSchema) and not isinstance(new, CombinedSchema):
            if len(old.parts) == 1:
                return self._take_if_compatible(old.parts[0], new)
            if old.criterion == "allOf":
                return any(self._take_if_compatible(part, new, "PRODUCT_TYPE_NARROWED") for part in old.parts)
        return False

    def _take_if_compatible(self, old: Schema, new: Schema, also: str | None = None) -> bool:
        inner = self._inner(old, new)
        if not inner.compatible:
            return False
        self.found += inner.found
        if also is not None:
            self._add(also)
        return True

    def _inner(self, old: Schema, new: Schema) -> Comparison:
        inner = Comparison(tuple(self._path), frozenset(self._entered), self._steps)
        inner.compare(old, new)
        return inner

    @property
    def compatible(self) -> bool:
        return all(each.compatible for each in self.found)

    def _same_type(self, old: Schema, new: Schema) -> None:
        for name in ("id", "title", "description", "default"):
            if getattr(old, name) != getattr(new, name):
                self._add(f"{name.upper()}_CHANGED")
        if isinstance(old, StringSchema) and isinstance(new, StringSchema):
            self._strings(old, new)
        elif isinstance(old, NumberSchema) and isinstance(new, NumberSchema):
            self._numbers(old, new)
        elif isinstance(old, ConstSchema) and isinstance(new, ConstSchema):
            if write_exact(old.value, ordered=True) != write_exact(new.value, ordered=True):
                self._add("ENUM_ARRAY_CHANGED", "const")
        elif isinstance(old, EnumSchema) and isinstance(new, EnumSchema):
            self._enums(old, new)
        elif isinstance(old, CombinedSchema) and isinstance(new, CombinedSchema):
            self._combined(old, new)
        elif isinstance(old, NotSchema) and isinstance(new, NotSchema):
            with self._at("not"):
                fits_still = self._inner(new.inner, old.inner).compatible
                self._add("NOT_TYPE_NARROWED" if fits_still else "NOT_TYPE_EXTENDED")
        elif isinstance(old, ObjectSchema) and isinstance(new, ObjectSchema):
            self._objects(old, new)
        elif isinstance(old, ArraySchema) and isinstance(new, ArraySchema):
            self._arrays(old, new)

    def _limit(self, keyword: str, name: str, old: Number | None, new: Number | None) -> None:
        if old == new:
            return
        if old is None or new is None:
            self._add(f"{name}_ADDED" if old is None else f"{name}_REMOVED", keyword)
        else:
            self._add(f"{name}_INCREASED" if old < new else f"{name}_DECREASED", keyword)

    def _strings(self, old: StringSchema, new: StringSchema) -> None:
        self._limit("maxLength", "MAX_LENGTH", old.max_length, new.max_length)
        self._limit("minLength", "MIN_LENGTH", old.min_length, new.min_length)
        if old.pattern != new.pattern:
            if old.pattern is None or new.pattern is None:
                self._add("PATTERN_ADDED" if old.pattern is None else "PATTERN_REMOVED", "pattern")
            else:
                self._add("PATTERN_CHANGED", "pattern")

    def _numbers(self, old: NumberSchema, new: NumberSchema) -> None:
        self._limit("maximum", "MAXIMUM", old.maximum, new.maximum)
        self._limit("minimum", "MINIMUM", old.minimum, new.minimum)
        self._limit("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", old.exclusive_maximum, new.exclusive_maximum)
        self._limit("exclusiveMinimum", "EXCLUSIVE_MINIMUM", old.exclusive_minimum, new.exclusive_minimum)
        if old.multiple_of != new.multiple_of:
            self._add(_multiple(old.multiple_of, new.multiple_of), "multipleOf")
        if old.integer != new.integer:
            self._add("TYPE_EXTENDED" if old.integer else "TYPE_NARROWED")

    def _enums(self, old: EnumSchema, new: EnumSchema) -> None:
        before = {write_exact(each, ordered=True) for each in old.values}
        after = {write_exact(each, ordered=True) for each in new.values}
        if before != after:
            kind = "EXTENDED" if after >= before else "NARROWED" if before >= after else "CHANGED"
            self._add(f"ENUM_ARRAY_{kind}", "enum")

    def _combined(self, old: CombinedSchema, new: CombinedSchema) -> None:
        before, after = _distinct(old), _distinct(new)
        if old.criterion != new.criterion:
            one_old, one_new = len(old.parts) == 1, len(new.parts) == 1
            wider = new.criterion == "anyOf" or (one_old and (one_new or new.criterion == "oneOf"))
            if not (wider or (one_new and old.criterion == "allOf")):
                self._add("COMBINED_TYPE_CHANGED")
                return
            self._add("COMBINED_TYPE_EXTENDED")
        if len(before) < len(after):
            self._add("PRODUCT_TYPE_EXTENDED" if new.criterion == "allOf" else "SUM_TYPE_EXTENDED")
        elif len(before) > len(after):
            self._add("PRODUCT_TYPE_NARROWED" if old.criterion == "allOf" else "SUM_TYPE_NARROWED")
        edges: dict[int, dict[int, list[Difference]]] = {}
        for index, part in enumerate(before):
            with self._at(f"{old.criterion}/{index}"):
                for other, candidate in enumerate(after):
                    inner = self._inner(part, candidate)
                    if inner.compatible:
                        edges.setdefault(index, {})[other] = inner.found
        pairs = matched(edges)
        for index, other in pairs.items():
            self.found += edges[index][other]
        if len(pairs) < min(len(before), len(after)):
            self._add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")

    def _objects(self, old: ObjectSchema, new: ObjectSchema) -> None:
        with self._at("required"):
            for name in in_hash_order(old.properties, new.properties):
                if name in old.properties and name in new.properties:
                    with self._at(name):
                        self._required(name, old, new)
        with self._at("properties"):
            for name in in_hash_order(old.properties, new.properties):
                with self._at(name):
                    self._property(name, old, new)
        with self._at("dependencies"):
            self._dependencies(old, new)
        with self._at("additionalProperties"):
            self._additional("ADDITIONAL_PROPERTIES", old, new)
        self._unevaluated("unevaluatedProperties", "UNEVALUATED_PROPERTIES", old.unevaluated, new.unevaluated)
        self._limit("maxProperties", "MAX_PROPERTIES", old.max_properties, new.max_properties)
        self._limit("minProperties", "MIN_PROPERTIES", old.min_properties, new.min_properties)

    def _required(self, name: str, old: ObjectSchema, new: ObjectSchema) -> None:
        if name in old.required and name not in new.required:
            self._add("REQUIRED_ATTRIBUTE_REMOVED")
        elif name in new.required and name not in old.required:
            has_default = new.properties[name].default is not NO_DEFAULT
            self._add("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED" if has_default else "REQUIRED_ATTRIBUTE_ADDED")

    def _property(self, name: str, old: ObjectSchema, new: ObjectSchema) -> None:
        before, after = old.properties.get(name), new.properties.get(name)
        if before is not None and after is not None:
            self.compare(before, after)
        elif before is not None:
            self._removed("PROPERTY", before, _is_open(new), _covering(new, name))
        else:
            assert after is not None
            self._property_added(name, after, old, new)

    def _property_added(self, name: str, added: Schema, old: ObjectSchema, new: ObjectSchema) -> None:
        required, has_default = name in new.required, added.default is not NO_DEFAULT
        if _is_open(old):
            if isinstance(added, EmptySchema):
                self._add("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL")
                return
            kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY"
            self._add(f"{kind if required else 'OPTIONAL_PROPERTY'}_ADDED_TO_OPEN_CONTENT_MODEL")
            return
        if (covering := _covering(old, name)) is not None:
            self._covered("PROPERTY_ADDED", covering, added)
        kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY"
        self._add(f"{kind if required else 'OPTIONAL_PROPERTY'}_ADDED_TO_UNOPEN_CONTENT_MODEL")

    def _removed(self, what: str, removed: Schema, is_open: bool, covering: Schema | None) -> None:
        if is_open:
            self._add(f"{what}_REMOVED_FROM_OPEN_CONTENT_MODEL")
        elif covering is not None:
            self._covered(f"{what}_REMOVED", removed, covering)
        elif isinstance(removed, FalseSchema):
            self._add(f"{what}_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")
        else:
            self._add(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL")

    def _covered(self, what: str, old: Schema, new: Schema) -> None:
        inner = self._inner(old, new)
        self.found += inner.found
        self._add(f"{what}_{'IS' if inner.compatible else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")

    def _dependencies(self, old: ObjectSchema, new: ObjectSchema) -> None:
        for name in in_hash_order(old.property_dependencies, new.property_dependencies):
            before, after = old.property_dependencies.get(name), new.property_dependencies.get(name)
            with self._at(name):
                if after is None or before is None:
                    self._add("DEPENDENCY_ARRAY_REMOVED" if after is None else "DEPENDENCY_ARRAY_ADDED")
                elif before != after:
                    kind = "EXTENDED" if after >= before else "NARROWED" if before >= after else "CHANGED"
                    self._add(f"DEPENDENCY_ARRAY_{kind}")
        for name in in_hash_order(old.schema_dependencies, new.schema_dependencies):
            earlier, later = old.schema_dependencies.get(name), new.schema_dependencies.get(name)
            with self._at(name):
                if later is None or earlier is None:
                    self._add("DEPENDENCY_SCHEMA_REMOVED" if later is None else "DEPENDENCY_SCHEMA_ADDED")
                else:
                    self.compare(earlier, later)

    def _additional(self, name: str, old: ObjectSchema | ArraySchema, new: ObjectSchema | ArraySchema) -> None:
        if old.additional != new.additional:
            self._add(f"{name}_ADDED" if new.additional else f"{name}_REMOVED")
        elif old.additional_schema is None and new.additional_schema is not None:
            self._add(f"{name}_NARROWED")
        elif new.additional_schema is None and old.additional_schema is not None:
            self._add(f"{name}_EXTENDED")
        else:
            self.compare(old.additional_schema, new.additional_schema)

    def _unevaluated(self, keyword: str, name: str, old: Schema | None, new: Schema | None) -> None:
        if old is None and new is None:
            return
        with self._at(keyword):
            was, now = isinstance(old, FalseSchema), isinstance(new, FalseSchema)
            if was != now:
                self._add(f"{name}_ADDED" if was else f"{name}_REMOVED")
            elif old is None or (isinstance(old, EmptySchema) and not isinstance(new, EmptySchema) and new is not None):
                self._add(f"{name}_NARROWED")
            elif new is None or (isinstance(new, EmptySchema) and not isinstance(old, EmptySchema)):
                self._add(f"{name}_EXTENDED")
            else:
                self.compare(old, new)

    def _arrays(self, old: ArraySchema, new: ArraySchema) -> None:
        with self._at("items"):
            self.compare(old.all_items, new.all_items)
        both = min(len(old.items), len(new.items))
        for index, (before, after) in enumerate(zip(old.items, new.items, strict=False)):
            with self._at(f"items/{index}"):
                self.compare(before, after)
        for index, removed in enumerate(old.items[both:], both):
            with self._at(f"items/{index}"):
                self._removed("ITEM", removed, _is_open(new), _covering(new))
        for index, added in enumerate(new.items[both:], both):
            with self._at(f"items/{index}"):
                self._item_added(added, old)
        with self._at("additionalItems"):
            self._additional("ADDITIONAL_ITEMS", old, new)
        self._unevaluated("unevaluatedItems", "UNEVALUATED_ITEMS", old.unevaluated, new.unevaluated)
        self._limit("maxItems", "MAX_ITEMS", old.max_items, new.max_items)
        self._limit("minItems", "MIN_ITEMS", old.min_items, new.min_items)
        if old.unique != new.unique:
            self._add("UNIQUE_ITEMS_REMOVED" if old.unique else "UNIQUE_ITEMS_ADDED", "uniqueItems")
        self._limit("maxContains", "MAX_CONTAINS", old.max_contains, new.max_contains)
        self._limit("minContains", "MIN_CONTAINS", old.min_contains, new.min_contains)

    def _item_added(self, added: Schema, old: ArraySchema) -> None:
        covering = _covering(old)
        if _is_open(old):
            kind = "ITEM_WITH_EMPTY_SCHEMA" if isinstance(added, EmptySchema) else "ITEM"
            self._add(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL")
        elif covering is not None:
            self._covered("ITEM_ADDED", covering, added)
        else:
            self._add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL")

    @contextmanager
    def _at(self, step: str) -> Iterator[None]:
        self._path.append(step)
        yield
        self._path.pop()

    def _add(self, kind: str, keyword: str | None = None) -> None:
        path = [*self._path, keyword] if keyword is not None else self._path
        self.found.append(Difference(kind, "#/" + "/".join(path)))


def _followed(schema: Schema) -> Schema:
    seen: set[int] = set()
    while isinstance(schema, ReferenceSchema) and schema.target is not None and id(schema) not in seen:
        seen.add(id(schema))
        schema = schema.target
    return schema


def _distinct(schema: CombinedSchema) -> list[Schema]:
    return list(dict(zip(schema.texts[::-1], schema.parts[::-1], strict=True)).values())[::-1]


def _multiple(old: Number | None, new: Number | None) -> str:
    if old is None or new is None:
        return "MULTIPLE_OF_ADDED" if old is None else "MULTIPLE_OF_REMOVED"
    if int(old) and int(new) % int(old) == 0:
        return "MULTIPLE_OF_EXPANDED"
    if int(new) and int(old) % int(new) == 0:
        return "MULTIPLE_OF_REDUCED"
    return "MULTIPLE_OF_CHANGED"


def _is_open(schema: ObjectSchema | ArraySchema) -> bool:
    if not schema.additional or schema.additional_schema is not None:
        return False
    if isinstance(schema, ObjectSchema) and schema.pattern_properties:
        return False
    return schema.unevaluated is None or isinstance(schema.unevaluated, EmptySchema)


def _covering(schema: ObjectSchema | ArraySchema, name: str = "") -> Schema | None:
    """The schema of what may stand beside what is named."""
    patterns: Iterable[tuple[str, Schema]] = (
        schema.pattern_properties.items() if isinstance(schema, ObjectSchema) else ()
    )
    for pattern, covering in patterns:
        if fits(pattern, name):
            return covering
    if schema.additional_schema is not None:
        return schema.additional_schema
    if schema.additional and not isinstance(schema.unevaluated, FalseSchema | EmptySchema):
        return schema.unevaluated
    return None
