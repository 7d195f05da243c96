"""The server's settings under ksqlDB's names: from a file, the Docker image's variables and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.settings import ClientSettings, read_properties
from barnabas.pipelines.sql.setting_names import STREAMS_PREFIX
from barnabas.web.security import HttpSecurity

ENVIRONMENT_PREFIX = "KSQL_"
OPTIONS_VARIABLE = "KSQL_OPTS"
NOT_SETTINGS = ("OPTS", "HEAP_OPTS", "JVM_PERFORMANCE_OPTS", "JMX_OPTS", "LOG4J_OPTS", "CLASSPATH")
DEFAULT_PORT = 8088
DEFAULT_SERVERS = "localhost:9092"
SESSION_TIMEOUT = f"{STREAMS_PREFIX}session.timeout.ms"
DEFAULT_SESSION_MS = 10_000
NICE, DEFAULT_NICE = "ksql.spark.nice", 5
CLIENT_KEYS = ("security.", "sasl.", "ssl.", "client.id", "request.timeout.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSettings:
    kafka: ClientSettings
    security: HttpSecurity = field(default_factory=HttpSecurity)  # of the REST API
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    service_id: str = "default_"
    state_directory: Path = Path("ksql-state")
    master: str | None = None
    queries_file: str | None = None
    replication_factor: int | None = None
    session_timeout_ms: int = DEFAULT_SESSION_MS
    spark_nice: int = DEFAULT_NICE

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        servers = properties.get("bootstrap.servers") or DEFAULT_SERVERS
        host, port = _listener(properties)
        client = {key: value for key, value in properties.items() if key.startswith(CLIENT_KEYS)}
        state = properties.get("ksql.state.dir") or properties.get("ksql.streams.state.dir") or "ksql-state"
        factor = integer(properties, "ksql.internal.topic.replicas", -1, least=-1)
        return cls(
            kafka=ClientSettings.from_properties(client, bootstrap_servers=servers, client_id="barnabas-sql"),
            security=HttpSecurity.from_properties(properties, OPTIONS_VARIABLE),
            properties=dict(properties) | {"bootstrap.servers": servers},
            host=host,
            port=port,
            service_id=properties.get("ksql.service.id") or "default_",
            state_directory=Path(state),
            master=properties.get("spark.master") or None,
            queries_file=properties.get("ksql.queries.file") or None,
            replication_factor=None if factor < 0 else factor,
            session_timeout_ms=integer(properties, SESSION_TIMEOUT, DEFAULT_SESSION_MS, least=1),
            spark_nice=integer(properties, NICE, DEFAULT_NICE, least=0),
        )

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_topic"

    @property
    def slots_topic(self) -> str:
        """Has no records: its partitions are what servers divide among them."""
        return f"_confluent-ksql-{self.service_id}_query_slots"

    @property
    def command_group(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_runner"

    @property
    def log_topic(self) -> str:
        given = self.properties.get("ksql.logging.processing.topic.name")
        return given or f"{self.service_id}ksql_processing_log"

    @property
    def makes_log_stream(self) -> bool:
        return self.properties.get("ksql.logging.processing.stream.auto.create", "").strip().lower() == "true"

    @property
    def log_stream(self) -> str:
        return (self.properties.get("ksql.logging.processing.stream.name") or "KSQL_PROCESSING_LOG").upper()

    def defaults(self) -> dict[str, Any]:
        """What statements see: `ksql.*` as it is, `ksql.streams.*` without the prefix."""
        found: dict[str, Any] = {key: value for key, value in self.properties.items() if key.startswith("ksql.")}
        for key, value in self.properties.items():
            if key.startswith(STREAMS_PREFIX):
                found[key.removeprefix(STREAMS_PREFIX)] = value
        found.setdefault("auto.offset.reset", self.properties.get("auto.offset.reset", "latest"))
        found.setdefault("processing.guarantee", self.properties.get("processing.guarantee", "exactly_once_v2"))
        return found


def load_properties(path: str | None, environment: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Overrides win over the environment, the environment over the file."""
    properties = read_properties(path) if path is not None else {}
    return properties | from_environment(environment) | dict(overrides)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """KSQL_BOOTSTRAP_SERVERS is bootstrap.servers, KSQL_KSQL_SERVICE_ID ksql.service.id; `__` is `_`, `___` is `-`."""
    found = {}
    for name, value in environment.items():
        rest = name.removeprefix(ENVIRONMENT_PREFIX)
        if rest == name or rest in NOT_SETTINGS:
            continue
        key = rest.lower().replace("___", "\0").replace("__", "\1").replace("_", ".")
        found[key.replace("\0", "-").replace("\1", "_")] = value
    return found


def _listener(properties: Mapping[str, str]) -> tuple[str, int]:
    listeners = properties.get("listeners", "").strip()
    if not listeners:
        return "0.0.0.0", DEFAULT_PORT
    first = listeners.split(",")[0].strip()
    address = first.rpartition("://")[2]
    host, colon, port = address.rstrip("/").rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidSetting("listeners", f"holds '{first}', which is not http://host:port.")
    return host.strip("[]") or "0.0.0.0", int(port)
