"""Settings of services: a properties file, the Docker image's variables and overrides, and the listener among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.settings import read_properties

# The images' variables that are not settings.
NOT_SETTINGS = frozenset({"OPTS", "HEAP_OPTS", "JVM_PERFORMANCE_OPTS", "JMX_OPTS", "JMX_PORT", "JMX_HOSTNAME"})
NOT_SETTINGS_PREFIXES = ("LOG4J_", "CUB_", "GC_", "DEBUG")


def load_properties(
    path: str | None, environment: Mapping[str, str], overrides: Mapping[str, str], prefix: str
) -> dict[str, str]:
    """Overrides win over the environment, the environment over the file."""
    properties = read_properties(path) if path is not None else {}
    return properties | from_environment(environment, prefix) | dict(overrides)


def from_environment(environment: Mapping[str, str], prefix: str, ignored: Collection[str] = ()) -> dict[str, str]:
    """KAFKA_REST_BOOTSTRAP_SERVERS is bootstrap.servers; `__` is `_` and `___` is `-`."""
    found = {}
    for name, value in environment.items():
        rest = name.removeprefix(prefix)
        if rest == name or rest in NOT_SETTINGS or rest in ignored or rest.startswith(NOT_SETTINGS_PREFIXES):
            continue
        key = rest.lower().replace("___", "\0").replace("__", "\1").replace("_", ".")
        found[key.replace("\0", "-").replace("\1", "_")] = value
    return found


def parse_listener(properties: Mapping[str, str], default_port: int) -> tuple[str, int]:
    listeners = properties.get("listeners", "").strip()
    if not listeners:
        return "0.0.0.0", integer(properties, "port", default_port, least=0, greatest=65535)
    first = next((each.strip() for each in listeners.split(",") if each.strip()), "")
    address = first.rpartition("://")[2]
    host, colon, port = address.rstrip("/").rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidSetting("listeners", f"holds '{first}', which is not http://host:port.")
    return host.strip("[]") or "0.0.0.0", int(port)


def with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
