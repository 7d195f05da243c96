"""Which keywords a draft of JSON Schema has, and what may stand under them.

Confluent's registry reads drafts 4 to 7 by one library and the newer ones by another; each takes and refuses as it
does. In drafts up to 7 only what describes counts beside `$ref`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_schema.model import Number
from barnabas.client.schemas.json_schema.text import write_exact
from barnabas.client.schemas.json_text import Json

DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
DEFAULT_DRAFT = 7
WHOLE_MAX = 2**31 - 1


def named_draft(tree: Json) -> int | None:
    """The draft that a document names."""
    if not isinstance(tree, dict) or "$schema" not in tree:
        return None
    name = tree["$schema"]
    if not isinstance(name, str):
        raise refused("$schema", "String", name)
    return DRAFTS.get(name.removeprefix("http://").removeprefix("https://").removesuffix("#"))


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    has: Callable[[Json], bool]


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_flag(value: Json) -> bool:
    return isinstance(value, bool)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_factor(value: Json) -> bool:
    return _is_number(value) and value != 0


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -WHOLE_MAX - 1 <= value <= WHOLE_MAX


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_type(value: Json) -> bool:
    return isinstance(value, str) or _are_texts(value)


def _maps_to(*kinds: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, dict) and all(any(kind(each) for kind in kinds) for each in value.values())


def _is_any_of(*types: type) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, types)


TEXT, FLAG, NUMBER = Kind("String", _is_text), Kind("Boolean", _is_flag), Kind("Number", _is_number)
WHOLE, OBJECT, LIST = (
    Kind("Integer", _is_whole),
    Kind("JsonObject", _is_any_of(dict)),
    Kind("JsonArray", _is_any_of(list)),
)
FACTOR, TEXTS = Kind("Number other than 0", _is_factor), Kind("JsonArray of String", _are_texts)

DESCRIBING: dict[str, Kind] = {"title": TEXT, "description": TEXT}
EVERYWHERE: dict[str, Kind] = DESCRIBING | {
    "$ref": TEXT,
    "type": Kind("String or JsonArray of String", _is_type),
    "enum": LIST,
    "required": TEXTS,
    "format": TEXT,
    "pattern": TEXT,
    "uniqueItems": FLAG,
    "minimum": NUMBER,
    "maximum": NUMBER,
}
LIMITS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
EXCLUSIVE = ("exclusiveMinimum", "exclusiveMaximum")

OLDER = EVERYWHERE | dict.fromkeys(LIMITS, WHOLE) | {"multipleOf": FACTOR}
DRAFT_4 = (
    OLDER
    | dict.fromkeys(EXCLUSIVE, FLAG)
    | {
        "id": TEXT,
        "items": Kind("JsonArray or JsonObject", _is_any_of(dict, list)),
        "dependencies": Kind("JsonObject of JsonArray or JsonObject", _maps_to(_is_any_of(dict), _are_texts)),
    }
)
DRAFT_6 = (
    OLDER
    | dict.fromkeys(EXCLUSIVE, NUMBER)
    | {
        "$id": TEXT,
        "items": Kind("Boolean, JsonArray or JsonObject", _is_any_of(bool, dict, list)),
        "dependencies": Kind("JsonObject of schemas or JsonArray", _maps_to(_is_any_of(bool, dict), _are_texts)),
    }
)
DRAFT_7 = DRAFT_6 | {"readOnly": FLAG, "writeOnly": FLAG}
DRAFT_2020 = (
    EVERYWHERE
    | dict.fromkeys(LIMITS + EXCLUSIVE, NUMBER)
    | dict.fromkeys(("readOnly", "writeOnly", "deprecated"), FLAG)
    | dict.fromkeys(("$dynamicRef", "$dynamicAnchor"), TEXT)
    | {
        "$defs": OBJECT,
        "multipleOf": NUMBER,
        "items": Kind("Boolean or JsonObject", _is_any_of(bool, dict)),
        "prefixItems": LIST,
        "dependentRequired": Kind("JsonObject of JsonArray of String", _maps_to(_are_texts)),
    }
)
DRAFT_2019 = DRAFT_2020 | {"items": DRAFT_7["items"]}
RULES = {4: DRAFT_4, 6: DRAFT_6, 7: DRAFT_7, 2019: DRAFT_2019, 2020: DRAFT_2020}
BESIDE_A_REFERENCE = frozenset({*DESCRIBING, "$ref", "id", "$id", "readOnly", "writeOnly"})

# What makes a schema of its own for the values that it speaks of.
OLDER_ARRAY = frozenset({"items", "additionalItems", "minItems", "maxItems", "uniqueItems"})
OLDER_OBJECT = frozenset(
    {"properties", "required", "minProperties", "maxProperties"}
    | {"dependencies", "patternProperties", "additionalProperties"}
)
NEWER_ARRAY = (OLDER_ARRAY - {"additionalItems"}) | {"prefixItems", "contains", "unevaluatedItems"}
NEWER_OBJECT = (OLDER_OBJECT - {"dependencies"}) | {
    "dependentRequired",
    "dependentSchemas",
    "propertyNames",
    "unevaluatedProperties",
}
NEWER_REFERENCE = ("$ref", "$dynamicRef")
STRING_KEYWORDS = frozenset({"minLength", "maxLength", "pattern"})


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of a draft by what they speak of."""

    string: frozenset[str]
    array: frozenset[str]
    object: frozenset[str]
    conditional: frozenset[str]  # what stands for a condition
    reference: tuple[str, ...] = ("$ref",)
    number: frozenset[str] = frozenset({"minimum", "maximum", "multipleOf", *EXCLUSIVE})


# In older drafts a format makes a string schema of its own beside another type.
_OLDER = Keywords(
    STRING_KEYWORDS | {"format"}, OLDER_ARRAY | {"contains"}, OLDER_OBJECT | {"propertyNames"}, frozenset()
)
KEYWORDS = {
    4: Keywords(_OLDER.string, OLDER_ARRAY, OLDER_OBJECT, frozenset()),
    6: _OLDER,
    7: Keywords(_OLDER.string, _OLDER.array, _OLDER.object, frozenset({"if", "then", "else"})),
    2019: Keywords(
        STRING_KEYWORDS,
        NEWER_ARRAY,
        NEWER_OBJECT,
        frozenset({"if"}),
        (*NEWER_REFERENCE, "$recursiveRef"),
    ),
    2020: Keywords(STRING_KEYWORDS, NEWER_ARRAY, NEWER_OBJECT, frozenset({"if"}), NEWER_REFERENCE),
}


def check(node: Mapping[str, Json], draft: int) -> None:
    """Refuses a keyword under which something else stands than the draft wants."""
    rules = RULES[draft]
    only_describing = draft <= DEFAULT_DRAFT and "$ref" in node
    for key in rules.keys() & node.keys():
        if not rules[key].has(node[key]) and (key in BESIDE_A_REFERENCE or not only_describing):
            raise refused(key, rules[key].name, node[key])


def refused(key: str, expected: str, found: Json) -> InvalidSchema:
    return InvalidSchema(f"Invalid JSON schema: #/{key}: expected type: {expected}, found: {write_exact(found)[:200]}")


def number(node: Mapping[str, Json], key: str) -> Number | None:
    """The number there; in draft 4 exclusive ones are booleans beside a limit."""
    value = node.get(key)
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def listed(node: Mapping[str, Json], key: str) -> list[Json]:
    value = node.get(key, [])
    if not isinstance(value, list):
        raise refused(key, "JsonArray", value)
    return value


def mapped(node: Mapping[str, Json], key: str) -> dict[str, Json]:
    value = node.get(key, {})
    if not isinstance(value, dict):
        raise refused(key, "JsonObject", value)
    return value
