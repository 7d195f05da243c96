"""SaslAuthenticate, versions 0 to 2: one message of a login, answered by the next one.

1 brought the lifetime of the session, 2 is flexible. Deviations from Kafka: none.
"""

from __future__ import annotations

from barnabas.core.security.sasl import LoginRefused
from barnabas.node.requests import RequestContext
from barnabas.node.security.login import ILLEGAL_STATE
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(context: RequestContext, request: SaslAuthenticateRequest, node: object) -> SaslAuthenticateResponse:
    login = context.session.login
    if login is None or not login.has_begun:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=ILLEGAL_STATE)
    message = bytes(request.auth_bytes)
    await login.prepare(message)
    try:
        answer = login.answer(message)
        lifetime_ms = login.session_lifetime_ms
        return SaslAuthenticateResponse(error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime_ms)
    except LoginRefused as error:
        await login.until_refusal()
        login.refuse()
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error))
