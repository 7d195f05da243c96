"""SaslHandshake, versions 0 and 1: a client chooses the mechanism of its login.

1 puts the mechanism's bytes into SaslAuthenticate; after 0 they are sent as they are. Deviations from Kafka: none.
"""

from __future__ import annotations

from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(context: RequestContext, request: SaslHandshakeRequest, node: object) -> SaslHandshakeResponse:
    login = context.session.login
    if login is None or not login.may_begin(request.mechanism):
        if login is not None and login.is_interrupted:
            login.refuse()
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = list(login.mechanisms)
    if request.mechanism not in mechanisms:
        login.refuse()
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
    login.begin(request.mechanism, is_raw=context.api_version == 0)
    return SaslHandshakeResponse(mechanisms=mechanisms)
