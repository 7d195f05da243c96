"""Where a node's properties come from: a file, the Docker images' variables, flags. Flags win over variables, variables
over the file.

Variables: KAFKA_ and the key in capitals, with _ for a dot, __ for an underscore and ___ for a dash (KAFKA_CFG_ works
too, as in Bitnami's images); CLUSTER_ID stands alone. KAFKA_SSL_KEYSTORE_FILENAME and the like name files in the
secrets directory. The images' own switches, such as KAFKA_HEAP_OPTS, are no keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import ConfigError
from barnabas.node.configuration.properties import read_properties

SECRETS_DIR = Path("/etc/kafka/secrets")

# What a node is that nobody has told anything: alone, so its internal topics have one replica.
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/tmp/kraft-combined-logs",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

_PREFIX = "KAFKA_"
_BITNAMI_PREFIX = "KAFKA_CFG_"
_CLUSTER_ID = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
_SWITCHES = frozenset(
    {
        "KAFKA_DEBUG",
        "KAFKA_DIRECTORY",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_GID",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_KRAFT_CLUSTER_ID",
        "KAFKA_MODE",
        "KAFKA_OPTS",
        "KAFKA_UID",
        "KAFKA_URL",
        "KAFKA_VERSION",
    }
)
_SWITCH_PREFIXES = ("KAFKA_LOG4J", "KAFKA_JMX_", "KAFKA_TOOLS_LOG4J")
_SECRET_FILES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_SECRET_WORDS = {
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}


def load(
    path: str | Path | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    secrets_dir: Path = SECRETS_DIR,
) -> BrokerConfig:
    """The node's configuration of all sources together. Raises ConfigError with one sentence if it cannot be."""
    environ = os.environ if environ is None else environ
    variables = properties_from_environment(environ, secrets_dir=secrets_dir)
    properties = read_properties(path) if path is not None else {}
    if path is None and not variables:
        properties = dict(DEFAULT_PROPERTIES)
        if "listeners" in (overrides or {}):
            del properties["advertised.listeners"], properties["controller.listener.names"]
    properties |= variables
    properties |= overrides or {}
    if "listeners" not in properties and "advertised.listeners" in variables:
        properties["listeners"] = _listening_everywhere(variables["advertised.listeners"])
    cluster_id = next((environ[name] for name in _CLUSTER_ID if environ.get(name)), None)
    return BrokerConfig.from_properties(properties, cluster_id=cluster_id)


def parse_overrides(overrides: list[str]) -> dict[str, str]:
    """`key=value` as it stands on the command line."""
    parsed: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{override} is not an override: key=value is expected.")
        parsed[key.strip()] = value
    return parsed


def properties_from_environment(environ: Mapping[str, str], *, secrets_dir: Path = SECRETS_DIR) -> dict[str, str]:
    properties: dict[str, str] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(_PREFIX) or name in _SWITCHES or name.startswith(_SWITCH_PREFIXES):
            continue
        if name in _SECRET_FILES:
            properties[_SECRET_FILES[name]] = str(secrets_dir / text)
        elif name in _SECRET_WORDS:
            properties[_SECRET_WORDS[name]] = _secret(name, secrets_dir / text)
        else:
            properties[key_of_variable(name)] = text
    return properties


def key_of_variable(name: str) -> str:
    name = name.removeprefix(_BITNAMI_PREFIX if name.startswith(_BITNAMI_PREFIX) else _PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_")


def _secret(variable: str, path: Path) -> str:
    try:
        return path.read_text().rstrip("\n")
    except OSError as error:
        raise ConfigError(f"{variable} names the file {path}, which cannot be read: {error.strerror}.") from None


def _listening_everywhere(advertised: str) -> str:
    """As the images do: what is advertised under any name is bound on every interface."""
    return re.sub(r"://(?:\[[^\]]*\]|[^:/,]*):", "://0.0.0.0:", advertised)
