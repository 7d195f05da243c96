"""The place of a field: a name, or with the syntax V2 a dotted path whose steps may be in backticks."""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.connect.data.schema import Field, Schema, Struct, Type, java_class
from barnabas.pipelines.connect.errors import ConfigError, DataError


class FieldPath:
    def __init__(self, text: str, *, nested: bool) -> None:
        self.steps = split_path(text) if nested else [text]

    def in_schema(self, schema: Schema) -> Field | None:
        field: Field | None = None
        for step in self.steps:
            if schema.type is not Type.STRUCT:
                raise DataError("Cannot look up fields on non-struct type")
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return field

    def in_struct(self, struct: Struct, *, with_default: bool) -> Any:
        current: Any = struct
        for step in self.steps[:-1]:
            if current.schema.field(step) is None:
                return None
            current = current.get(step)
            if current is None:
                return None
            if not isinstance(current, Struct):
                raise DataError(
                    f"Only Struct objects supported for [nested field access], found: {java_class(current)}"
                )
        last = self.steps[-1]
        return current.read(last, with_default=with_default) if current.schema.field(last) else None

    def in_map(self, given: dict[str, Any]) -> Any:
        current: Any = given
        for step in self.steps[:-1]:
            current = current.get(step)
            if current is None:
                return None
            if not isinstance(current, dict):
                raise DataError(
                    "Only Map objects supported in absence of schema for [nested field access], found: "
                    + java_class(current)
                )
        return current.get(self.steps[-1])


def split_path(path: str) -> list[str]:
    """A step in backticks may hold dots; a backtick that is followed by a dot is quoted by a backslash."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] != "`":
            end = path.find(".", at)
            steps.append(path[at:] if end < 0 else path[at:end])
            at = len(path) if end < 0 else end + 1
        else:
            step, at = _in_backticks(path, at)
            steps.append(step)
    if path.endswith("."):
        steps.append("")
    return steps


def _in_backticks(path: str, opened: int) -> tuple[str, int]:
    step, start, at = "", opened + 1, opened + 1
    while True:
        at = path.find("`", at)
        at_end = at >= len(path) - 1
        quoted = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at_end and quoted):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position "
                f"{opened} to escape it"
            )
        if at_end:
            return step + path[start:at], at + 1
        if path[at + 1] == "." and not quoted:
            return step + path[start:at], at + 2
        if path[at + 1] == "." and quoted:
            step += path[start : at - 1] + "`"
            start = at + 1
        at += 1
