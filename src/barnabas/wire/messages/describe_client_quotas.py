"""DescribeClientQuotas, key 48."""

from __future__ import annotations

from barnabas.wire.schema import Float64, Int8, Int16, Int32, Request, Response, Struct, field


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


class ComponentData(Struct):
    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = ""


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)


class EntryData(Struct):
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


class EntityData(Struct):
    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Struct):
    key: str = ""
    value: Float64 = 0.0
