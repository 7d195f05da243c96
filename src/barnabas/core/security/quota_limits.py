"""Which limit holds for a client: the most special one that is set, in Kafka's order.

    user and client id, user and the default client id, user, the default user and client id, the default of both,
    the default user, client id, the default client id

A limit of a user is shared by all its clients, one of a user and a client id by all connections of this pair. A limit
that was set for a default holds for each user or client id by itself. Addresses have their own limits and one default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]


class Limit(NamedTuple):
    per_s: float
    shared_by: tuple[str | None, str | None]  # user and client id; None: whoever


class QuotaLimits:
    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._by_parts: dict[tuple[str | None, str | None], Mapping[str, float]] = {}
        self._by_ip: dict[str | None, float] = {}
        for entity, limits in quotas.items():
            parts = dict(entity)
            if IP in parts:
                if CONNECTIONS in limits:
                    self._by_ip[parts[IP]] = limits[CONNECTIONS]
                continue
            self._by_parts[_part(parts, USER), _part(parts, CLIENT_ID)] = limits

    @property
    def holds_for_clients(self) -> bool:
        return any(self._by_parts.values())

    @property
    def holds_for_addresses(self) -> bool:
        return bool(self._by_ip)

    def of(self, kind: str, user: str, client_id: str) -> Limit | None:
        by_parts = self._by_parts
        for at_user, at_client, shared_by in (
            (user, client_id, (user, client_id)),
            (user, DEFAULT, (user, client_id)),
            (user, None, (user, None)),
            (DEFAULT, client_id, (user, client_id)),
            (DEFAULT, DEFAULT, (user, client_id)),
            (DEFAULT, None, (user, None)),
            (None, client_id, (None, client_id)),
            (None, DEFAULT, (None, client_id)),
        ):
            limits = by_parts.get((at_user, at_client))
            if limits is not None and kind in limits:
                return Limit(limits[kind], shared_by)
        return None

    def of_address(self, address: str) -> float | None:
        return self._by_ip.get(address, self._by_ip.get(None))


DEFAULT = "\0default"  # no user and no client id has this name


def _part(parts: Mapping[str, str | None], kind: str) -> str | None:
    if kind not in parts:
        return None
    name = parts[kind]
    return DEFAULT if name is None else name
