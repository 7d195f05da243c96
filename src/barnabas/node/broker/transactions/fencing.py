"""PRODUCER_FENCED came later than transactions: older clients are told INVALID_PRODUCER_EPOCH and act the same."""

from __future__ import annotations

from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError


def error_for(context: RequestContext, error: KafkaError, fenced_since: int) -> KafkaError:
    """The error as a client of this version understands it."""
    return KafkaError(code_for(context, error.code, fenced_since), error.message)


def code_for(context: RequestContext, code: ErrorCode, fenced_since: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
