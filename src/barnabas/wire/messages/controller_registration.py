"""ControllerRegistration, key 70."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, UInt16, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ControllerRegistrationRequest(Request, key=70, versions="0", flexible="0+"):
    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class Feature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
