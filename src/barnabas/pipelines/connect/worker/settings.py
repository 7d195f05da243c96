"""The worker's settings under Connect's names: from a file, the Docker image's variables and overrides."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.settings import ClientSettings, read_properties
from barnabas.pipelines.connect.config import with_prefix
from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.plugins import need
from barnabas.web.security import HttpSecurity

ENVIRONMENT_PREFIX = "CONNECT_"
NOT_SETTINGS = ("OPTS", "HEAP_OPTS", "JMX_", "LOG4J_", "CUB_", "GC_", "DEBUG", "JVM_", "KAFKA_")
DEFAULT_PORT = 8083
OPTIONS_VARIABLE = "KAFKA_OPTS"
CLIENT_PREFIXES = ("security.", "sasl.", "ssl.")
CLIENT_KEYS = ("bootstrap.servers", "client.id", "request.timeout.ms", "retry.backoff.ms", "metadata.max.age.ms")
POLICY = "connector.client.config.override.policy"
POLICIES = ("All", "None", "Principal", "Allowlist")
PRINCIPAL = ("security.protocol", "sasl.jaas.config", "sasl.mechanism")
CONVERTERS = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    properties: Mapping[str, str] = field(repr=False)
    kafka: ClientSettings
    distributed: bool
    security: HttpSecurity = field(default_factory=HttpSecurity)  # of the REST API
    listen_host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    advertised_host: str = "localhost"
    advertised_port: int = DEFAULT_PORT
    group_id: str = ""
    config_topic: str = ""
    offset_topic: str = ""
    status_topic: str = ""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    override_policy: str = "All"  # which clients' settings a connector may override
    overridable: tuple[str, ...] = ()  # by the policy Allowlist

    @classmethod
    def from_properties(cls, given: Mapping[str, str], *, distributed: bool) -> Self:
        properties = dict(given)
        for name in CONVERTERS[:2]:
            if not properties.get(name):
                raise InvalidSetting(name, "is missing: a worker needs a converter for keys and one for values.")
        _check_converters(properties)
        host, port = _listener(properties)
        needed = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
        if distributed:
            for name in needed:
                if not properties.get(name):
                    raise InvalidSetting(name, "is missing: distributed workers need it.")
        return cls(
            properties=properties,
            kafka=ClientSettings.from_properties(client_properties(properties)),
            distributed=distributed,
            security=HttpSecurity.from_properties(properties | {"listeners": _listeners(properties)}, OPTIONS_VARIABLE),
            listen_host=host,
            port=port,
            advertised_host=properties.get("rest.advertised.host.name") or (host if host != "0.0.0.0" else _own_name()),
            advertised_port=integer(properties, "rest.advertised.port", port, greatest=65535),
            group_id=properties.get("group.id") or _standalone_group(properties),
            config_topic=properties.get("config.storage.topic", ""),
            offset_topic=properties.get("offset.storage.topic", ""),
            status_topic=properties.get("status.storage.topic", ""),
            session_timeout_ms=integer(properties, "session.timeout.ms", 10_000, least=1),
            heartbeat_interval_ms=integer(properties, "heartbeat.interval.ms", 3_000, least=1),
            rebalance_timeout_ms=integer(properties, "rebalance.timeout.ms", 60_000, least=1),
            override_policy=_policy(properties),
            overridable=tuple(each.strip() for each in properties.get(f"{POLICY[:-6]}allowlist", "").split(",")),
        )

    def may_override(self, name: str) -> bool:
        """Whether a connector may set this property of its producer, consumer or admin client."""
        if self.override_policy == "Principal":
            return name in PRINCIPAL
        return self.override_policy == "All" or (self.override_policy == "Allowlist" and name in self.overridable)

    @property
    def scheme(self) -> str:
        return "http" if self.security.tls is None else "https"

    @property
    def worker_id(self) -> str:
        return f"{self.advertised_host}:{self.advertised_port}"

    def client(self, kind: str, connector: Mapping[str, str] | None = None) -> dict[str, str]:
        """Properties of producers, consumers or admin calls: the worker's, then the connector's overrides."""
        found = with_prefix(self.properties, f"{kind}.")
        return found | with_prefix(connector or {}, f"{kind}.override.")

    def defaults(self) -> dict[str, str]:
        """Converters of the worker, with their settings, for connectors that name none."""
        found = {}
        for name in CONVERTERS:
            if name in self.properties:
                found[name] = self.properties[name]
                rest = with_prefix(self.properties, f"{name}.")
                found |= {f"{name}.{key}": value for key, value in rest.items()}
        return found

    def with_defaults(self, connector: Mapping[str, str]) -> dict[str, str]:
        """A connector's settings of a converter count only if it names the converter."""
        found = dict(connector)
        for name in CONVERTERS:
            if name not in connector:
                found = {key: value for key, value in found.items() if not key.startswith(f"{name}.")}
                defaults = self.defaults()
                found |= {key: value for key, value in defaults.items() if key == name or key.startswith(f"{name}.")}
        return found


def _policy(properties: Mapping[str, str]) -> str:
    """Java's class, or its name without the ending."""
    given = properties.get(POLICY) or "All"
    short = given.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    if short not in POLICIES:
        raise InvalidSetting(POLICY, f"must be one of {', '.join(POLICIES)}, not '{given}'.")
    return short


def _standalone_group(properties: Mapping[str, str]) -> str:
    """Part of transactional ids: the same after a restart, and another one for each worker that runs connectors of the
    same names on one Kafka, as those of the quickstart; else they would fence each other."""
    place = f"{socket.gethostname()} {Path(properties.get('offset.storage.file.filename', '')).absolute()}"
    return f"connect-standalone-{zlib.crc32(place.encode()):08x}"


def _own_name() -> str:
    return socket.gethostbyname(socket.gethostname()) if _resolves() else "localhost"


def _resolves() -> bool:
    try:
        return bool(socket.gethostbyname(socket.gethostname()))
    except OSError:
        return False


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in properties.items()
        if key in CLIENT_KEYS or (key.startswith(CLIENT_PREFIXES) and not key.startswith("listeners."))
    }


def _listeners(properties: Mapping[str, str]) -> str:
    return (properties.get("listeners") or properties.get("rest.listeners") or "").strip()


def _listener(properties: Mapping[str, str]) -> tuple[str, int]:
    first = _listeners(properties).split(",")[0].strip()
    if not first:
        return properties.get("rest.host.name") or "0.0.0.0", integer(
            properties, "rest.port", DEFAULT_PORT, greatest=65535
        )
    protocol, found, address = first.rpartition("://")
    if found and protocol.lower() not in ("http", "https"):
        raise InvalidSetting("listeners", f"holds {first}: the worker serves http and https.")
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise InvalidSetting("listeners", f"holds {first}, which is not http://host:port.")
    return host.strip("[]") or "0.0.0.0", int(port)


def load_properties(path: str | None, environment: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Overrides win over the environment, the environment over the file."""
    found = read_properties(path) if path is not None else {}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and not name.removeprefix(ENVIRONMENT_PREFIX).startswith(NOT_SETTINGS):
            rest = name.removeprefix(ENVIRONMENT_PREFIX).lower()
            marked = rest.replace("___", "\0").replace("__", "\1").replace("_", ".")
            found[marked.replace("\0", "-").replace("\1", "_")] = value
    return found | dict(overrides)


def _check_converters(properties: Mapping[str, str]) -> None:
    """Before anything runs: each connector would fail with them."""
    for side in CONVERTERS:
        if name := properties.get(side):
            try:
                need(name, "converter", "header_converter", setting=side)
            except ConfigError as error:
                raise InvalidSetting(side, "is wrong: " + str(error).partition(": ")[2]) from None
