"""What a client needs to know before it connects, out of Kafka's client properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.security import SecuritySettings
from barnabas.wire.properties import InvalidProperties, decode_properties

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

DEFAULT_PORT = 9092
Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap_servers: tuple[Address, ...]
    client_id: str = "barnabas"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    security: SecuritySettings = field(default_factory=SecuritySettings)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, bootstrap_servers: str | None = None, client_id: str | None = None
    ) -> Self:
        servers = properties.get("bootstrap.servers", "") if bootstrap_servers is None else bootstrap_servers
        return cls(
            bootstrap_servers=parse_bootstrap_servers(servers),
            client_id=client_id or properties.get("client.id") or "barnabas",
            request_timeout_ms=integer(properties, "request.timeout.ms", 30_000),
            socket_connection_setup_timeout_ms=integer(
                properties, "socket.connection.setup.timeout.ms", 10_000, least=1
            ),
            retry_backoff_ms=integer(properties, "retry.backoff.ms", 100),
            retry_backoff_max_ms=integer(properties, "retry.backoff.max.ms", 1_000),
            default_api_timeout_ms=integer(properties, "default.api.timeout.ms", 60_000),
            metadata_max_age_ms=integer(properties, "metadata.max.age.ms", 300_000),
            security=SecuritySettings.from_properties(properties),
            properties=dict(properties),
        )


def read_properties(path: str | Path) -> dict[str, str]:
    """A file in Java's .properties format."""
    try:
        with open(path, "rb") as file:
            return decode_properties(file.read())
    except OSError as error:
        raise InvalidSetting(str(path), f"cannot be read: {error.strerror}.") from None
    except InvalidProperties as error:
        raise InvalidSetting(str(path), f"cannot be read: {error}") from None


def parse_bootstrap_servers(text: str) -> tuple[Address, ...]:
    addresses = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise InvalidSetting("bootstrap.servers", "names no broker: host:port is needed, for instance localhost:9092.")
    return addresses


def parse_address(text: str) -> Address:
    """host:port, host alone, [::1]:9092, and with a protocol in front as listeners are written."""
    address = text.rpartition("://")[2]
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        port = rest.removeprefix(":")
        wrong = not bracket or (rest != "" and not rest.startswith(":"))
    elif address.count(":") > 1:  # an IPv6 address without a port
        host, port, wrong = address, "", False
    else:
        host, colon, port = address.partition(":")
        wrong = bool(colon) and not port
    if wrong or not host or not (port == "" or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise InvalidSetting("bootstrap.servers", f"holds '{text}', which is not host:port.")
    return host, int(port or DEFAULT_PORT)


def show_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
