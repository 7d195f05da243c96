"""What the network is told: its limits, and the listeners it opens."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from barnabas.node.requests import Access, ListenerKind

if TYPE_CHECKING:
    from barnabas.node.security.login import Logins
    from barnabas.node.security.tls import ListenerTls

log = logging.getLogger("barnabas.net")

UNLIMITED = 2**31 - 1
DEFAULT_QUEUED_BYTES = 512 << 20
KAFKAS_RECEIVE_BUFFER_BYTES = 102400


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    request_max_bytes: int = 100 << 20
    queued_max_bytes: int = DEFAULT_QUEUED_BYTES
    backlog: int = 50
    send_buffer_bytes: int = 102400
    receive_buffer_bytes: int = KAFKAS_RECEIVE_BUFFER_BYTES
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_ms: int = 600_000
    # How rates of connections are measured.
    rate_samples: int = 11
    rate_window_s: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address to accept on. An empty host is every interface; port 0 is any free one."""

    name: str
    host: str
    port: int
    kind: ListenerKind = ListenerKind.BROKER
    security_protocol: int = 0
    access: Access | None = None  # None: everybody may do everything
    tls: ListenerTls | None = None
    logins: Logins | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_ip_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: host:count,host:count. A name stands for all its addresses.

    One that nobody knows now is left out: whoever set it may be gone, and the node has to start.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("max.connections.per.ip.overrides: ignoring %s, its address was not found: %s", host, error)
            continue
        for *_, address in found:
            limits[host_address(str(address[0]))] = int(count)
    return limits


def host_address(text: str) -> str:
    """An address as Java writes it, which is how access control entries name hosts: IPv6 without any short form."""
    if ":" not in text:
        return text
    plain, percent, scope = text.partition("%")
    address = IPv6Address(plain)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope


def names_hosts(text: str) -> bool:
    """Whether `parse_ip_overrides` has to look names up, for which others may take their time."""
    hosts = [part.rpartition(":")[0].strip().strip("[]") for part in text.split(",") if part.strip()]
    return not all(is_address(host) for host in hosts)


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def bind(listener: Listener, settings: NetworkSettings) -> socket.socket:
    """A socket bound to the listener's address. Accepted connections inherit its options."""
    if listener.host:
        found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # As Java does: a name that has both is bound to its IPv4 address.
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    elif socket.has_dualstack_ipv6():
        family, address = socket.AF_INET6, ("::", listener.port)
    else:
        family, address = socket.AF_INET, ("0.0.0.0", listener.port)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if listener.host else 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.send_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        # Kafka's default is less than the system finds by itself, and large requests then cost three times the CPU.
        if settings.receive_buffer_bytes > 0 and settings.receive_buffer_bytes != KAFKAS_RECEIVE_BUFFER_BYTES:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        bound.setblocking(False)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
