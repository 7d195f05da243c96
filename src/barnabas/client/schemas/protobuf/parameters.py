"""What Confluent's option `field_meta` says of fields beyond their type, as the precision of a decimal number.

It is read from the text of a schema: descriptors that are made of it do not hold it.
"""

from __future__ import annotations

from barnabas.client.schemas.protobuf.elements import Message
from barnabas.client.schemas.protobuf.schema import read_schema

FIELD_META = "confluent.field_meta"


def field_parameters(text: str) -> dict[str, dict[str, str]]:
    """By the full name of the field."""
    file = read_schema(text)
    found: dict[str, dict[str, str]] = {}
    for each in file.types:
        if isinstance(each, Message):
            _collect(each, f"{file.package}." if file.package else "", found)
    return found


def _collect(message: Message, prefix: str, found: dict[str, dict[str, str]]) -> None:
    for field in [*message.fields, *(each for union in message.one_ofs for each in union.fields)]:
        for option in field.options:
            params = option.value.get("params", []) if isinstance(option.value, dict) else []
            if option.name == FIELD_META:
                pairs = params if isinstance(params, list) else [params]
                given = {str(pair["key"]): str(pair["value"]) for pair in pairs}
                found[f"{prefix}{message.name}.{field.name}"] = given
    for inner in message.types:
        if isinstance(inner, Message):
            _collect(inner, f"{prefix}{message.name}.", found)
