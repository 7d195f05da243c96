"""Where other brokers are to be reached, and the way there: the listener for brokers, with this broker's own login.

Each kind of errand has a connection of its own to a broker, since a broker answers one connection's requests in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.client.errors import BrokerUnreachable
from barnabas.client.peer import Peer, PeerSettings
from barnabas.client.security import SecuritySettings
from barnabas.client.settings import Address
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.security.peers import peer_security
from barnabas.wire.schema import Request


class Peers:
    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._security: SecuritySettings | None = None
        self._errands: dict[tuple[str, int], Peer] = {}

    def address_of(self, broker_id: int) -> Address | None:
        """None if the broker is unknown, or has no listener of the name that brokers use here."""
        broker = self._image().brokers.get(broker_id)
        endpoint = broker.endpoints.get(self._config.inter_broker_listener_name) if broker is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def open(self, address: Address, client_id: str, *, negotiate: bool, in_flight_max: int = 1) -> Peer:
        if self._security is None:
            name = self._config.inter_broker_listener_name
            self._security = peer_security(self._config, name, "sasl.mechanism.inter.broker.protocol")
        settings = PeerSettings(
            client_id=client_id,
            security=self._security,
            negotiate=negotiate,
            in_flight_max=in_flight_max,
            request_timeout_ms=self._config.replica_socket_timeout_ms,
        )
        return Peer(address, settings)

    async def ask(self, broker_id: int, errand: str, request: Request, timeout_ms: int) -> Any:
        """The broker's answer; raises ClientError if there is none."""
        address = self.address_of(broker_id)
        if address is None:
            raise BrokerUnreachable(f"Broker {broker_id} is not registered, or has no listener for brokers.")
        peer = self._errands.get((errand, broker_id))
        if peer is None or peer.address != address:
            former = peer
            client_id = str(self._config.node_id)
            peer = self._errands[errand, broker_id] = self.open(address, client_id, negotiate=True, in_flight_max=5)
            if former is not None:
                await former.close()
        return await peer.send(request, timeout_ms=timeout_ms)

    async def close(self) -> None:
        peers, self._errands = list(self._errands.values()), {}
        for peer in peers:
            await peer.close()
