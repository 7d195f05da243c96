"""Serdes of topologies whose schemas are in a registry.

    orders = topology.stream("orders", value=from_registry("http://localhost:8081"))
    orders.map_values(...).to("totals", value=avro(TOTAL, registry="http://localhost:8081"))

A serde travels to the tasks as an address and a schema. Each process has one client of the registry, which is asked
once for a schema and never for a record. The subject of what is written follows from the topic where the serde is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.serdes import Serde, SerdeError

if TYPE_CHECKING:
    from barnabas.client.serdes import Deserializer, Schema, Serializer


@dataclass(frozen=True)
class RegistryCoding:
    """What a serde needs in every process; the clients themselves are made there."""

    registry: str
    properties: Mapping[str, str]
    schema: Schema | None
    message: str
    subject: str | None
    topic: str | None = None
    is_key: bool = False
    _made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def encode(self, value: Any) -> bytes:
        from barnabas.client.serdes import RegistryRefused

        try:
            data = self._serializer().encode(self.topic or "", value)
        except RegistryRefused as error:
            raise SerdeError(f"the registry refuses the schema: {error}") from None
        assert data is not None
        return data

    def decode(self, data: bytes) -> Any:
        from barnabas.client.serdes import RegistryRefused

        try:
            return self._deserializer().decode(data)
        except RegistryRefused as error:
            raise SerdeError(f"the registry does not give its schema: {error}") from None

    def _serializer(self) -> Serializer:
        made: Serializer | None = self._made.get("serializer")
        if made is None:
            from barnabas.client.serdes import SerdeSettings, Serializer, shared_registry

            settings = SerdeSettings.from_properties(self.properties, is_key=self.is_key)
            if self.topic is None and self.subject is None and settings.strategy != "RecordNameStrategy":
                raise SerdeError("it cannot be written here: the serde knows neither a topic nor a subject")
            if self.schema is None:
                settings = replace(settings, use_latest=settings.use_id is None)
            made = self._made["serializer"] = Serializer(
                shared_registry(self.registry, self.properties),
                self.schema,
                settings,
                is_key=self.is_key,
                subject=self.subject,
                message=self.message,
            )
        return made

    def _deserializer(self) -> Deserializer:
        made: Deserializer | None = self._made.get("deserializer")
        if made is None:
            from barnabas.client.serdes import Deserializer, shared_registry

            reader = self.schema if self.schema is not None and self.schema.type == "AVRO" else None
            registry = shared_registry(self.registry, self.properties)
            made = self._made["deserializer"] = Deserializer(registry, is_key=self.is_key, reader=reader)
        return made


def _serde(name: str, coding: RegistryCoding) -> Serde[Any]:
    def on(topic: str, is_key: bool) -> Serde[Any]:
        return _serde(name, replace(coding, topic=topic, is_key=is_key, _made={}))

    return Serde(name, coding.encode, coding.decode, on=on)


def _with_schema(
    kind: str,
    schema: str,
    registry: str,
    subject: str | None,
    properties: Mapping[str, str] | None,
    message: str = "",
) -> Serde[Any]:
    from barnabas.client.serdes import Schema, codec_of

    given = Schema(schema, kind)
    codec_of(given, message=message)  # a mistake in it is told where it is written
    return _serde(kind.lower(), RegistryCoding(registry, dict(properties or {}), given, message, subject))


def avro(
    schema: str, *, registry: str, subject: str | None = None, properties: Mapping[str, str] | None = None
) -> Serde[Any]:
    """Records are dicts. They are read as this schema sees them, whatever version of it they were written with."""
    return _with_schema("AVRO", schema, registry, subject, properties)


def json_schema(
    schema: str, *, registry: str, subject: str | None = None, properties: Mapping[str, str] | None = None
) -> Serde[Any]:
    return _with_schema("JSON", schema, registry, subject, properties)


def protobuf(
    schema: str,
    *,
    registry: str,
    message: str = "",
    subject: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Serde[Any]:
    """Messages are dicts; `message` names the one of the file that is written, if it is not the first."""
    return _with_schema("PROTOBUF", schema, registry, subject, properties, message)


def from_registry(
    registry: str, *, subject: str | None = None, properties: Mapping[str, str] | None = None
) -> Serde[Any]:
    """Reads whatever schemas records have; writes with the latest version of the subject."""
    return _serde("registry", RegistryCoding(registry, dict(properties or {}), None, "", subject))
