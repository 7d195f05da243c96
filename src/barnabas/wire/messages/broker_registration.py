"""BrokerRegistration, key 62."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class BrokerRegistrationRequest(Request, key=62, versions="0-4", flexible="0+"):
    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    rack: str | None = ""
    is_migrating_zk_broker: bool = since(1, default=False)
    log_dirs: list[Uuid] = since(2, default_factory=list, ignorable=True)
    previous_broker_epoch: Int64 = since(3, default=-1, ignorable=True)


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class Feature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
