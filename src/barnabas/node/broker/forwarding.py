"""The active controller, where it is another node: this node's own requests, and those of its clients in envelopes.

The leader of the quorum is asked, wherever it is at the moment. Each kind of errand has a connection of its own, since
a node answers one connection's requests in their order: a heartbeat must not wait behind the creation of topics. What
clients ask for has several: a client has one request on its way, but there are many clients.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Mapping
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.peer import Peer, PeerSettings
from barnabas.node.raft.interface import Raft
from barnabas.node.requests import RequestContext
from barnabas.wire.apis import message_classes, request_header_version, response_header_version
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest
from barnabas.wire.messages.create_topics import CreateTopicsResponse
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.records.principal import DefaultPrincipalData
from barnabas.wire.schema import Request

PRINCIPAL_VERSION = 0
FORWARD = "forward"
FORWARD_LANES = (FORWARD, *(f"{FORWARD} {number}" for number in range(2, 9)))


class ControllerPeers:
    def __init__(self, raft: Raft, settings: PeerSettings) -> None:
        self._raft = raft
        self._settings = settings
        self._peers: dict[tuple[str, tuple[str, int]], Peer] = {}

    async def close(self) -> None:
        peers, self._peers = self._peers, {}
        await asyncio.gather(*(peer.close() for peer in peers.values()), return_exceptions=True)

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """What the active controller offers, by API; empty while no connection to it says."""
        address = self._raft.leader_address
        peer = None if address is None else self._peers.get((FORWARD, address))
        return {} if peer is None else peer.versions

    async def request(self, request: Request, timeout_s: float) -> Any:
        """The answer of the active controller to a request of this node; an error of the whole is raised."""
        answer = await self._send(_errand(request), request, timeout_s)
        code = getattr(answer, "error_code", 0)
        if isinstance(answer, CreateTopicsResponse):
            is_elsewhere = any(each.error_code == ErrorCode.NOT_CONTROLLER for each in answer.topics)
            code = ErrorCode.NOT_CONTROLLER if is_elsewhere else code
        if code:
            raise KafkaError(ErrorCode(code), getattr(answer, "error_message", None) or ErrorCode(code).name)
        return answer

    async def forward(self, context: RequestContext, request: Request, timeout_s: float) -> Any:
        """The answer to a client's request, which the active controller decides in the client's name."""
        request_class, response_class = message_classes(context.api_key)
        version = context.api_version
        header = RequestHeader(
            request_api_key=context.api_key,
            request_api_version=version,
            correlation_id=context.correlation_id,
            client_id=context.client_id,
        )
        data = header.encode(request_header_version(request_class, version)) + request.encode(version)
        envelope = EnvelopeRequest(
            request_data=bytes(data),
            request_principal=_principal(context.principal),
            client_host_address=_address(context.client_host),
        )
        answer: EnvelopeResponse = await self._send(FORWARD, envelope, timeout_s)
        if answer.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION):
            raise KafkaError(ErrorCode(answer.error_code))
        if answer.error_code or answer.response_data is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The active controller did not take the request.")
        inner = memoryview(answer.response_data)
        _, position = ResponseHeader.decode_from(inner, 0, response_header_version(request_class, version))
        return response_class.decode(inner[position:], version)

    async def _send(self, errand: str, request: Request, timeout_s: float) -> Any:
        address = self._raft.leader_address
        if address is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No active controller is known.")
        sending = asyncio.ensure_future(
            self._peer(errand, address).send(request, timeout_ms=max(timeout_s, 0.001) * 1000)
        )
        moving = asyncio.ensure_future(self._raft.wait_for(lambda: self._raft.leader_address != address))
        try:
            await asyncio.wait([sending, moving], return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "The lead of the quorum has changed hands.")
            return sending.result()
        except ClientError as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        finally:
            sending.cancel()
            moving.cancel()

    def _peer(self, errand: str, address: tuple[str, int]) -> Peer:
        """What is forwarded goes over the first connection that is free, so that changes are committed together."""
        peers = []
        for lane in FORWARD_LANES if errand == FORWARD else (errand,):
            peer = self._peers.get((lane, address))
            if peer is None:
                peer = self._peers[lane, address] = Peer(address, self._settings)
            if not peer.in_flight and not peer.waiting:
                return peer
            peers.append(peer)
        return min(peers, key=lambda peer: peer.in_flight + peer.waiting)


def _errand(request: Request) -> str:
    if isinstance(request, BrokerHeartbeatRequest | BrokerRegistrationRequest):
        return "life"
    return "in-sync replicas" if isinstance(request, AlterPartitionRequest) else FORWARD


def _principal(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name).encode(PRINCIPAL_VERSION)
    return struct.pack(">h", PRINCIPAL_VERSION) + bytes(data)


def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
