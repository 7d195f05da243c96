"""Where a node listens, and under which addresses it is to be found.

A listener is NAME://host:port. The name stands for a security protocol, directly (PLAINTEXT, SSL, ...) or through
`listener.security.protocol.map`; a controller's listener that is mapped to nothing is PLAINTEXT, unless the map is
given or any listener is secured, as in Kafka. An empty host is every interface; port 0 is any free one and becomes a
real one when the socket is bound.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.node.configuration.definition import ConfigError

PORT_MAX = 65535


class SecurityProtocol(IntEnum):
    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class ListenerEndpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Voter(NamedTuple):
    id: int
    host: str
    port: int


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or protocol.upper() not in SecurityProtocol.__members__:
            allowed = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(
                f"listener.security.protocol.map={text} cannot be used: {entry} must be a listener's name, a colon and "
                f"one of {allowed}."
            )
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def default_protocols(
    protocols: Mapping[str, SecurityProtocol], controllers: Iterable[str], listeners: Iterable[str]
) -> dict[str, SecurityProtocol]:
    """The default map, with PLAINTEXT for the controllers' listeners as long as nothing is secured."""
    names = [entry.partition("://")[0].strip().upper() for entry in listeners]
    controller_names = list(controllers)
    if any(protocols.get(name, SecurityProtocol.PLAINTEXT) for name in [*names, *controller_names]):
        return dict(protocols)
    return dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT) | dict(protocols)


def parse_listeners(
    key: str, entries: Sequence[str], protocols: Mapping[str, SecurityProtocol], *, distinct_ports: bool = True
) -> tuple[ListenerEndpoint, ...]:
    endpoints = tuple(_parse_listener(key, entry, protocols) for entry in entries)
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key} names the listener {name} twice: each needs a name of its own.")
    if distinct_ports:
        _check_ports(key, endpoints)
    return endpoints


def _parse_listener(key: str, entry: str, protocols: Mapping[str, SecurityProtocol]) -> ListenerEndpoint:
    match = re.fullmatch(r"([^:/\s]+)://(?:\[([0-9a-zA-Z%.:]*)\]|([0-9a-zA-Z\-_.%:]*)):(\d+)", entry)
    if match is None or int(match[4]) > PORT_MAX:
        raise ConfigError(
            f"{key}={entry} is not an address: NAME://host:port is expected, with a port from 0 to {PORT_MAX}."
        )
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(f"{key} has a listener {name} whose protocol listener.security.protocol.map does not say.")
    return ListenerEndpoint(name, match[2] or match[3] or "", int(match[4]), protocols[name])


def _check_ports(key: str, endpoints: Sequence[ListenerEndpoint]) -> None:
    """Ports are distinct; one may be shared by an IPv4 and an IPv6 address."""
    families: dict[int, list[int | None]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            families.setdefault(endpoint.port, []).append(_family(endpoint.host))
    for port, found in families.items():
        if len(found) > 1 and sorted(map(str, found)) != ["4", "6"]:
            raise ConfigError(
                f"{key} uses port {port} twice: only an IPv4 address and an IPv6 address may share a port."
            )


def _family(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def parse_voters(entries: Sequence[str]) -> tuple[Voter, ...]:
    """Of two entries with one id the later one counts, as with Apache Kafka."""
    voters: dict[int, Voter] = {}
    for entry in entries:
        match = re.fullmatch(r"(\d+)@(?:\[([^\]]+)\]|([^:@]+)):(\d+)", entry)
        if match is None or int(match[4]) > PORT_MAX:
            raise ConfigError(f"controller.quorum.voters={entry} is not a voter: id@host:port is expected.")
        voter = Voter(int(match[1]), match[2] or match[3], int(match[4]))
        if voter.host == "0.0.0.0":
            raise ConfigError(f"controller.quorum.voters={entry}: the host 0.0.0.0 is not routeable.")
        voters[voter.id] = voter
    return tuple(voters.values())
