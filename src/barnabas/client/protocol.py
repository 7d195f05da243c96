"""The protocol between a client and one broker, without I/O: what the blocking and the asyncio driver share.

A driver opens a socket and runs the steps of `set_up`. Then it sends the frames that `request_frame` gives, and hands
each frame that arrives to `read_answer`, with what was asked: a broker answers in the order it was asked. Where a frame
ends, `answer_length` says.

Steps are a generator. It yields a request and its version, and is sent the answer:

    opened -> ApiVersions (-> UNSUPPORTED_VERSION -> ApiVersions in the broker's newest)
           -> with SASL: SaslHandshake -> SaslAuthenticate, as often as the mechanism needs -> ready
    ready  -> before the SASL session ends: `log_in` again -> ready
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import __version__
from barnabas.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    Refused,
    TimedOut,
    UnreadableAnswer,
    UnsupportedByBroker,
    known_code,
)
from barnabas.client.exchange import read_response, request_frame
from barnabas.wire.apis import APIS
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.schema import Buffer, Request

if TYPE_CHECKING:
    from barnabas.client.security import SecuritySettings

LENGTH = struct.Struct(">i")
# A length above it begins with a printable character: text, not an answer.
ANSWER_BYTES_MAX = 0x2000_0000
API_VERSIONS_KEY = 18
SESSION_SHARE = 0.85  # of a SASL session's lifetime that is used before the login is repeated
TLS_ALERT = b"\x15\x03"

Steps = Generator[tuple[Request, int], Any, None]


class Features(NamedTuple):
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int


class Asked(NamedTuple):
    request: type[Request]
    version: int
    correlation_id: int


class ClientProtocol:
    """The client's side of one connection."""

    def __init__(self, peer: str, client_id: str, security: SecuritySettings) -> None:
        self.peer = peer
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features = Features({}, {}, -1)
        self.session_ms: float = float("inf")  # how long the last login may be used
        self._client_id = client_id
        self._security = security
        self._correlation_id = 0
        self._newest: dict[type[Request], int] = {}

    def request_frame(self, request: Request, version: int) -> tuple[Asked, bytearray]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        asked = Asked(type(request), version, self._correlation_id)
        return asked, request_frame(request, version, self._correlation_id, self._client_id)

    def answer_length(self, head: bytes | bytearray) -> int:
        """The length of the frame that four bytes announce."""
        length: int = LENGTH.unpack(head)[0]
        wants_tls = head.startswith(TLS_ALERT)
        if not 4 <= length < ANSWER_BYTES_MAX or wants_tls:
            hint = " It seems to want TLS." if wants_tls else ""
            raise UnreadableAnswer(f"{self.peer} does not answer as a Kafka broker does.{hint}")
        return length

    def read_answer(self, asked: Asked, frame: Buffer) -> Any:
        try:
            if asked.request is ApiVersionsRequest and frame[4:6] == b"\x00\x23":  # UNSUPPORTED_VERSION, in version 0
                return ApiVersionsResponse.decode(memoryview(frame)[4:], 0)
            return read_response(asked.request, asked.version, asked.correlation_id, frame)
        except DecodeError as error:
            name = f"{api_name(asked.request)} version {asked.version}"
            raise UnreadableAnswer(f"{self.peer} gave an answer to {name} that cannot be read: {error}.") from error

    def version_of(self, request: type[Request]) -> int:
        """The newest version both sides know."""
        if request in self._newest:
            return self._newest[request]
        api = APIS[request.api_key]
        known = api.broker or api.controller or request.valid_versions
        low, high = max(known[0], request.valid_versions[0]), min(known[1], request.valid_versions[1])
        offered = self.versions.get(request.api_key)
        if offered is None:
            raise UnsupportedByBroker(f"The broker at {self.peer} does not know {api_name(request)}.")
        if max(low, offered[0]) > min(high, offered[1]):
            raise UnsupportedByBroker(
                f"The broker at {self.peer} knows {api_name(request)} in versions {offered[0]} to {offered[1]}, "
                f"and this client in {low} to {high}."
            )
        self._newest[request] = min(high, offered[1])
        return self._newest[request]

    def set_up(self, first_version: int = ApiVersionsRequest.valid_versions[1]) -> Steps:
        """Versions and features, then the login if there is one."""
        ask = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        answer = yield ask, first_version
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = next((api.max_version for api in answer.api_keys if api.api_key == API_VERSIONS_KEY), 0)
            answer = yield ask, min(offered, first_version)
        if answer.error_code:
            raise Refused(answer.error_code, f"{self.peer} refused to say what it speaks")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self._newest.clear()
        self.features = Features(
            {item.name: (item.min_version, item.max_version) for item in answer.supported_features},
            {item.name: item.max_version_level for item in answer.finalized_features},
            answer.finalized_features_epoch,
        )
        if self._security.uses_sasl:
            yield from self.log_in()

    def log_in(self) -> Steps:
        from barnabas.client.sasl import exchange_for
        from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
        from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

        security = self._security
        offer = yield SaslHandshakeRequest(mechanism=security.mechanism), self.version_of(SaslHandshakeRequest)
        if offer.error_code:
            raise AuthenticationFailed(
                f"{self.peer} does not take {security.mechanism}; it offers {', '.join(offer.mechanisms) or 'nothing'}."
            )
        exchange = exchange_for(security, self.peer.rpartition(":")[0].strip("[]"))
        message = exchange.first()
        version = self.version_of(SaslAuthenticateRequest)
        while not exchange.done:
            answer = yield SaslAuthenticateRequest(auth_bytes=message), version
            if answer.error_code:
                said = (answer.error_message or known_code(answer.error_code).name).rstrip(".")
                whose = f" of {security.username}" if security.username else ""
                raise AuthenticationFailed(f"{self.peer} refused the login{whose}: {said}.")
            message = exchange.answer(bytes(answer.auth_bytes))
        self.session_ms = answer.session_lifetime_ms * SESSION_SHARE if answer.session_lifetime_ms > 0 else float("inf")

    def timed_out(self, request: type[Request]) -> TimedOut:
        """The driver closes the connection then: an answer that comes later could be taken for another's."""
        return TimedOut(f"{self.peer} did not answer {api_name(request)} in time.")

    def lost(self, request: type[Request]) -> ConnectionLost:
        hint = ""
        if not self.versions:
            hint = f" (security.protocol is {self._security.protocol}: is that what this listener speaks?)"
        return ConnectionLost(f"{self.peer} closed the connection before it answered {api_name(request)}{hint}.")


def api_name(request: type[Request]) -> str:
    return request.__name__.removesuffix("Request")
