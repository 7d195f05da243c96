"""The registry's settings under Confluent's names: from a file, the Docker image's variables and overrides."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import boolean, integer, listed
from barnabas.client.settings import ClientSettings
from barnabas.services import environment as environment_settings
from barnabas.services.environment import parse_listener, with_prefix
from barnabas.services.registry.levels import Level
from barnabas.services.response_headers import Headers, response_headers
from barnabas.web.security import HttpSecurity

ENVIRONMENT_PREFIX = "SCHEMA_REGISTRY_"
DEFAULT_PORT = 8081
BODY_BYTES_MAX = 4 * 1024 * 1024
OPTIONS_VARIABLE = "SCHEMA_REGISTRY_OPTS"
STRICT_REFERENCES = "schema.providers.reference.versions.strict"
INT_MAX = (1 << 31) - 1
LISTED = {"schema": 1_000, "subject": INT_MAX, "subject.version": INT_MAX, "context": INT_MAX}


class Limits(NamedTuple):
    """How many are listed where the request does not say it, and how many it may ask for."""

    default: int
    greatest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    kafka: ClientSettings
    security: HttpSecurity = field(default_factory=HttpSecurity)
    listen_host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    advertised_host: str = "localhost"
    advertised_port: int = DEFAULT_PORT
    topic: str = "_schemas"
    replication_factor: int = 3
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 5_000
    init_timeout_ms: int = 60_000
    group_id: str = "schema-registry"
    eligible: bool = True
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    level: Level = Level.BACKWARD
    mode_mutable: bool = True
    validate_new: bool = True
    validate_fields: bool = False
    rejects_empty_subjects: bool = False
    strict_references: bool = False
    limits: Mapping[str, Limits] = field(default_factory=dict)  # by what is listed
    deployment: tuple[str, ...] = ()
    response_headers: Headers = ()
    body_bytes_max: int = BODY_BYTES_MAX

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        host, port = parse_listener(properties, DEFAULT_PORT)
        level = _level(properties)
        session_timeout_ms = integer(properties, "kafkagroup.session.timeout.ms", 10_000, least=1)
        return cls(
            kafka=_kafka(properties),
            security=HttpSecurity.from_properties(properties, OPTIONS_VARIABLE),
            listen_host=host,
            port=port,
            advertised_host=properties.get("host.name") or socket.gethostname(),
            advertised_port=integer(properties, "host.port", port, least=0, greatest=65535),
            topic=properties.get("kafkastore.topic") or "_schemas",
            replication_factor=integer(properties, "kafkastore.topic.replication.factor", 3, least=1),
            topic_configs=with_prefix(properties, "kafkastore.topic.config."),
            timeout_ms=integer(properties, "kafkastore.timeout.ms", 5_000, least=1),
            init_timeout_ms=integer(properties, "kafkastore.init.timeout.ms", 60_000, least=1),
            group_id=properties.get("schema.registry.group.id") or "schema-registry",
            eligible=boolean(properties, "leader.eligibility", boolean(properties, "master.eligibility", True)),
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=integer(properties, "kafkagroup.heartbeat.interval.ms", 3_000, least=1),
            rebalance_timeout_ms=integer(properties, "kafkagroup.rebalance.timeout.ms", 300_000, least=1),
            level=level,
            mode_mutable=boolean(properties, "mode.mutability", True),
            validate_new=boolean(properties, "schema.validate.new.schemas", True),
            validate_fields=boolean(properties, "schema.validate.fields", False),
            rejects_empty_subjects=boolean(properties, "schema.reject.empty.subject", False),
            strict_references=boolean(properties, STRICT_REFERENCES, False),
            limits={name: _limits(properties, name) for name in LISTED},
            deployment=tuple(listed(properties, "schema.registry.metadata.deployment.attributes")),
            response_headers=response_headers(properties),
            body_bytes_max=integer(properties, "size.limit.filter.max.request.body.size", BODY_BYTES_MAX, least=1),
        )


def load_properties(path: str | None, environment: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    return environment_settings.load_properties(path, environment, overrides, ENVIRONMENT_PREFIX)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return environment_settings.from_environment(environment, ENVIRONMENT_PREFIX)


def _level(properties: Mapping[str, str]) -> Level:
    name = "schema.compatibility.level" if "schema.compatibility.level" in properties else "avro.compatibility.level"
    text = properties.get(name, "backward")
    level = Level.named(text.strip())
    if level is None:
        raise InvalidSetting(name, f"is {text}; it must be one of {', '.join(each.value for each in Level)}.")
    return level


def _limits(properties: Mapping[str, str], what: str) -> Limits:
    default, greatest = (
        integer(properties, f"{what}.search.{which}.limit", LISTED[what], least=1) for which in ("default", "max")
    )
    return Limits(default, greatest)


def _kafka(properties: Mapping[str, str]) -> ClientSettings:
    given = with_prefix(properties, "kafkastore.")
    servers = given.get("bootstrap.servers", "").strip()
    if not servers:
        raise InvalidSetting("kafkastore.bootstrap.servers", "is missing: for instance PLAINTEXT://localhost:9092.")
    client = {key: value for key, value in given.items() if key not in ("topic", "group.id", "timeout.ms")}
    client.setdefault("request.timeout.ms", "3000")
    return ClientSettings.from_properties(client, bootstrap_servers=servers, client_id="barnabas-registry")
