"""What a transformation is: `apply` gives the record, another one, or None to drop it.

Those that come as `$Key` and `$Value` are one class; `side` says which of the two it works on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from barnabas.pipelines.connect.config import Definition, Setting
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import Schema, Struct, Type, java_class
from barnabas.pipelines.connect.errors import DataError

REPLACE_NULL = Setting(
    "replace.null.with.default",
    "BOOLEAN",
    True,
    "MEDIUM",
    "Whether to replace fields that have a default value and that are null to the default value. "
    "When set to true, the default value is used, otherwise null is used.",
)
CACHE_MAX = 64


class Transformation:
    definition: ClassVar[Definition] = Definition()
    sided: ClassVar[bool] = False
    doc: ClassVar[str] = ""

    def __init__(self, settings: Mapping[str, str], side: str | None = None) -> None:
        self.side = side
        self.values = self.definition.parse(settings)
        self._schemas: dict[int, tuple[Schema, Schema]] = {}
        self.defaults = bool(self.values.get(REPLACE_NULL.name, True))
        self.configure()

    def configure(self) -> None:
        """Checks and keeps settings."""

    def apply(self, record: Record) -> Record | None:
        raise NotImplementedError

    def operating(self, record: Record) -> tuple[Schema | None, Any]:
        if self.side == "Key":
            return record.key_schema, record.key
        return record.value_schema, record.value

    def changed(
        self, record: Record, schema: Schema | None, value: Any, headers: tuple[Header, ...] | None = None
    ) -> Record:
        headers = record.headers if headers is None else headers
        if self.side == "Key":
            return record.but(key_schema=schema, key=value, headers=headers)
        return record.but(value_schema=schema, value=value, headers=headers)

    def updated_schema(self, schema: Schema) -> Schema:
        """`make_schema`, once for each schema object."""
        known = self._schemas.get(id(schema))
        if known is None:
            if len(self._schemas) >= CACHE_MAX:
                self._schemas.clear()
            known = self._schemas[id(schema)] = schema, self.make_schema(schema)
        return known[1]

    def make_schema(self, schema: Schema) -> Schema:
        raise NotImplementedError

    def read(self, value: Struct, name: str) -> Any:
        return value.read(name, with_default=self.defaults)


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}")
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {java_class(value)}")
    return value


def basics(schema: Schema) -> dict[str, Any]:
    """Name, version, doc and parameters, as Connect copies them; neither optional nor the default."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}


def require_fields(schema: Schema) -> None:
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
