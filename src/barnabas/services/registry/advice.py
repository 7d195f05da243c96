"""What is wrong with a schema, for programs: the rule, the place, and what helps.

Made out of the messages that people read, so the two never differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MESSAGE = re.compile(r"\{errorType:['\"](?P<rule>\w+)['\"], description:['\"](?P<text>.*)\Z", re.DOTALL)
DETAIL = re.compile(r"', additionalInfo:'(?P<detail>.*)'\}\Z", re.DOTALL)
PATH = re.compile(r"path '(?P<path>[^']*)'")
ADVICE = {
    # Avro
    "READER_FIELD_MISSING_DEFAULT_VALUE": "Give the field '{detail}' a default, or make it a union with null first and "
    'the default null: {{"name": "{detail}", "type": ["null", ...], "default": null}}.',
    "TYPE_MISMATCH": "Keep the type, or widen it: int to long, float or double; long to float or double; string and "
    "bytes into each other. For anything else add a field of another name with a default.",
    "MISSING_ENUM_SYMBOLS": "Keep the symbols {detail}, or give the enum a default.",
    "MISSING_UNION_BRANCH": "Keep the branch in the union; branches may be added where only readers are changed.",
    "NAME_MISMATCH": "Keep the name, or add the former one to aliases.",
    "FIXED_SIZE_MISMATCH": "Keep the size; add a field of another name for values of another size.",
    # Protobuf
    "PACKAGE_CHANGED": "Keep the package.",
    "MESSAGE_REMOVED": "Keep the message, even if nothing uses it.",
    "FIELD_KIND_CHANGED": "Keep the field as it is, and add another with a new number.",
    "FIELD_SCALAR_KIND_CHANGED": "Use a type of the same group (int32, uint32, int64, uint64, bool; sint32, sint64; "
    "string, bytes; fixed32, sfixed32; fixed64, sfixed64), or add a field with a new number.",
    "FIELD_NAMED_TYPE_CHANGED": "Keep the type, and add another field with a new number.",
    "FIELD_NUMERIC_LABEL_CHANGED": "Keep repeated as it is: numbers are packed in one form and not in the other.",
    "REQUIRED_FIELD_ADDED": "Make the field optional.",
    "REQUIRED_FIELD_REMOVED": "Keep the field; old readers refuse messages without it.",
    "ONEOF_FIELD_REMOVED": "Keep the field in its oneof.",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Move one field at most into a new oneof.",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "Leave the field outside, and add another to the oneof.",
    # JSON Schema
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "Objects may hold any property here, of any type. Close the schema with "
    '"additionalProperties": false before properties are added, or leave the new one without a type.',
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "Keep the property, or allow others with additionalProperties.",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "Leave the property out of required, or give it a default.",
    "REQUIRED_ATTRIBUTE_ADDED": "Leave it out of required, or give the property a default.",
    "TYPE_CHANGED": "Keep the type, or allow both: a list of types.",
    "TYPE_NARROWED": "Keep the types that were allowed.",
    "ENUM_ARRAY_NARROWED": "Keep the values that were allowed; new ones may be added.",
    "ENUM_ARRAY_CHANGED": "Keep the values that were allowed; new ones may be added.",
}
ENDINGS = {
    "_ADDED": "Leave this constraint out: what was valid before may break it.",
    "_INCREASED": "Keep the former limit, or a lower one.",
    "_DECREASED": "Keep the former limit, or a higher one.",
    "_NARROWED": "Keep what was allowed before.",
    "_REMOVED": "Keep it as it was.",
    "_CHANGED": "Keep it as it was, and add something of another name.",
}
OTHER = "Register it under another subject, or set the compatibility of this one to a level that allows the change."


def explained(messages: Iterable[str]) -> list[dict[str, Any]]:
    """Messages that are about no difference, as the former schema itself, are left out."""
    return [each for each in map(_explained, messages) if each is not None]


def _explained(message: str) -> dict[str, Any] | None:
    found = MESSAGE.match(message)
    if found is None:
        if message.startswith(("{oldSchema", "{validateFields", "{compatibility")):
            return None
        return {"rule": "OTHER", "path": None, "detail": message, "suggestion": OTHER}
    rule, text = found["rule"], found["text"]
    detail = DETAIL.search(text)
    told = text[: detail.start()] if detail else text.rstrip("}'\"")
    path = PATH.search(told)
    named = detail["detail"] if detail else ""
    return {
        "rule": rule,
        "path": path["path"] if path else None,
        "detail": named or told,
        "suggestion": advice(rule, named),
    }


def advice(rule: str, detail: str) -> str:
    text = ADVICE.get(rule)
    if text is None:
        text = next((each for ending, each in ENDINGS.items() if rule.endswith(ending)), OTHER)
    return text.format(detail=detail)
