"""A node asked by its port."""

from __future__ import annotations

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings

HOST = "127.0.0.1"


def connect_to(port: int, client_id: str = "barnabas") -> Connection:
    return Connection((HOST, port), ClientSettings(bootstrap_servers=((HOST, port),), client_id=client_id))
