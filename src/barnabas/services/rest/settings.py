"""The REST proxy's settings under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import boolean, integer, one_of
from barnabas.client.settings import ClientSettings
from barnabas.services.environment import parse_listener, with_prefix
from barnabas.services.response_headers import Headers, response_headers
from barnabas.web.security import HttpSecurity

ENVIRONMENT_PREFIX = "KAFKA_REST_"
DEFAULT_PORT = 8082
OPTIONS_VARIABLE = "KAFKAREST_OPTS"
PROPAGATE = "confluent.rest.auth.propagate.method"
BODY_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    kafka: ClientSettings
    listen_host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    security: HttpSecurity = field(default_factory=HttpSecurity)
    host_name: str = ""
    producer: Mapping[str, str] = field(default_factory=dict, repr=False)
    consumer: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry_url: str = ""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    instance_timeout_ms: int = 300_000
    request_timeout_ms: int = 1_000
    request_bytes_max: int = 64 * 1024 * 1024
    instances_topic: str = "_rest_consumers"
    instances_replication_factor: int = 3
    body_bytes_max: int = BODY_BYTES_MAX
    produce_topics_created: bool = True
    response_headers: Headers = ()
    acts_as_caller: bool = False  # at the cluster the proxy logs in as who asks it

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        host, port = parse_listener(properties, DEFAULT_PORT)
        shared = with_prefix(properties, "client.")
        servers = shared.get("bootstrap.servers") or properties.get("bootstrap.servers", "")
        if not servers.strip():
            raise InvalidSetting("bootstrap.servers", "is missing: for instance PLAINTEXT://localhost:9092.")
        kafka = ClientSettings.from_properties(
            {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"} | shared,
            bootstrap_servers=servers,
            client_id=properties.get("id") or "barnabas-rest",
        )
        security = HttpSecurity.from_properties(properties, OPTIONS_VARIABLE)
        return cls(
            kafka=kafka,
            security=security,
            acts_as_caller=_acts_as_caller(properties, kafka, security),
            listen_host=host,
            port=port,
            host_name=properties.get("host.name", ""),
            producer=with_prefix(properties, "producer."),
            consumer=with_prefix(properties, "consumer.properties.") | _consumer(properties),
            registry_url=properties.get("schema.registry.url", ""),
            registry={name: text for name, text in properties.items() if name.startswith("schema.registry.")},
            instance_timeout_ms=integer(properties, "consumer.instance.timeout.ms", 300_000, least=1),
            request_timeout_ms=integer(properties, "consumer.request.timeout.ms", 1_000),
            request_bytes_max=integer(properties, "consumer.request.max.bytes", 64 * 1024 * 1024, least=1),
            instances_topic=properties.get("consumer.instances.topic") or "_rest_consumers",
            instances_replication_factor=integer(properties, "consumer.instances.topic.replication.factor", 3, least=1),
            body_bytes_max=integer(properties, "api.v2.produce.request.max.bytes", BODY_BYTES_MAX, least=1),
            produce_topics_created=boolean(properties, "produce.auto.create.topics", True),
            response_headers=response_headers(properties),
        )


def _acts_as_caller(properties: Mapping[str, str], kafka: ClientSettings, security: HttpSecurity) -> bool:
    if one_of(properties, PROPAGATE, "NONE", ("NONE", "SASL")) == "NONE":
        return False
    if security.is_open:
        raise InvalidSetting(PROPAGATE, "is SASL, and nobody logs in at the proxy: authentication.method is NONE.")
    if not kafka.security.uses_sasl:
        raise InvalidSetting(PROPAGATE, "is SASL, and client.security.protocol is not SASL_PLAINTEXT or SASL_SSL.")
    return True


def _consumer(properties: Mapping[str, str]) -> dict[str, str]:
    """`consumer.session.timeout.ms` and the like; what is the proxy's own is not the consumers'."""
    own = ("instance.timeout.ms", "request.timeout.ms", "request.max.bytes", "instances.", "threads", "properties.")
    given = with_prefix(properties, "consumer.")
    return {name: text for name, text in given.items() if not name.startswith(own)}
