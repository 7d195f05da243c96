"""The serializers that requests have used, so that a schema is compiled once and its registry asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.client.serdes import Registry, Schema, SerdeSettings, Serializer
from barnabas.services.rest.formats import SCHEMA_TYPES

SERIALIZERS_MAX = 1_000


class Serializers:
    """One for each schema and topic that was used, so that a schema is compiled once."""

    def __init__(self, registry: Callable[[], Registry]) -> None:
        self._registry = registry
        self._kept: dict[tuple[Any, ...], Serializer] = {}

    def get(self, form: str, part: str, text: str | None, schema_id: int | None) -> Serializer:
        schema = Schema(text, SCHEMA_TYPES[form]) if text is not None else None
        settings = SerdeSettings(use_id=schema_id)
        return self.kept(
            (form, part, text, schema_id),
            lambda: Serializer(self._registry(), schema, settings, is_key=part == "key"),
        )

    def kept(self, key: tuple[Any, ...], make: Callable[[], Serializer]) -> Serializer:
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= SERIALIZERS_MAX:
                self._kept.clear()
            known = self._kept[key] = make()
        return known
