"""AlterClientQuotas, key 49."""

from __future__ import annotations

from barnabas.wire.schema import Float64, Int16, Int32, Request, Response, Struct, field


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False


class EntryData(Struct):
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


class EntityData(Struct):
    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Struct):
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData] = field(default_factory=list)


class ResponseEntryData(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)
