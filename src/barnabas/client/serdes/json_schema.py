"""JSON under a JSON Schema: checked when it is written and when it is read.

The checks are jsonschema-rs: its patterns cannot be made to run for years, and nothing is fetched: a reference leads to
a registered schema or nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import msgspec

from barnabas.client.schemas import ResolvedReference
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.schema import Schema

SHOWN_MAX = 300
OLD_DRAFTS = ("http://json-schema.org/schema", "http://json-schema.org/draft-03/schema")


class NotChecked(SerdeError):
    """The value is not made of JSON's own types."""


class JsonSchemaCodec:
    def __init__(self, schema: Schema, references: Sequence[ResolvedReference] = (), *, check: bool = True) -> None:
        self.schema = schema
        self._check = check
        self._read = msgspec.json.Decoder().decode
        try:
            self.tree = json.loads(schema.text)
        except (ValueError, RecursionError):
            raise SerdeError("The JSON schema is not JSON.") from None
        texts = {each.name: each.text for each in references}
        try:
            self._validator = jsonschema_rs.validator_for(
                _with_known_draft(self.tree), retriever=lambda uri: _referenced(texts, uri), offline=None
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
            raise SerdeError(f"The JSON schema is not valid: {_first_line(error)}") from None
        title = self.tree.get("title") if isinstance(self.tree, dict) else None
        self.record_name = title if isinstance(title, str) else None

    def encode(self, value: Any) -> bytes:
        try:
            data = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise SerdeError(f"The value cannot be written as JSON: {error}") from None
        try:
            self._validate(value)
        except NotChecked:
            if _is_plain(value):
                raise
            self._validate(msgspec.json.decode(data))  # a tuple, a date and others are no JSON before they are written
        return data

    def decode(self, data: bytes) -> Any:
        try:
            value = self._read(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                value = json.loads(data)  # takes NaN, other encodings and numbers beyond all bounds
            except (ValueError, RecursionError):
                raise SerdeError("The bytes are not JSON.") from None
        self._validate(value)
        return value

    def to_json(self, data: bytes) -> Any:
        return self.decode(data)

    def from_json(self, tree: Any) -> bytes:
        return self.encode(tree)

    def _validate(self, value: Any) -> None:
        if not self._check:
            return
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            path = "/".join(str(each) for each in error.instance_path)
            where = f"at /{path}" if path else "as a whole"
            raise SerdeError(f"The value does not fit the JSON schema {where}: {_shortened(error.message)}") from None
        except ValueError as error:  # what is no JSON
            raise NotChecked(f"The value cannot be written as JSON: {error}") from None


def _is_plain(value: Any) -> bool:
    return type(value) in (dict, list, str, int, float, bool, type(None)) and (
        not isinstance(value, dict | list) or all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    )


def _referenced(texts: dict[str, str], uri: str) -> Any:
    """Names of references are often relative; the URIs they are asked under are not."""
    bare = uri.removesuffix("#")
    for name in (uri, bare, bare.removeprefix("json-schema:///"), bare.rpartition("/")[2]):
        if name in texts:
            return json.loads(texts[name])
    raise ValueError(f"{uri} is not a reference of the schema")


def _with_known_draft(tree: Any) -> Any:
    if isinstance(tree, dict) and str(tree.get("$schema", "")).removesuffix("#") in OLD_DRAFTS:
        return tree | {"$schema": "http://json-schema.org/draft-07/schema#"}
    return tree


def _shortened(message: str) -> str:
    """The value stands in front, and what is wrong with it behind."""
    half = SHOWN_MAX // 2
    return message if len(message) <= SHOWN_MAX else f"{message[:half]} ... {message[-half:]}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:SHOWN_MAX]
