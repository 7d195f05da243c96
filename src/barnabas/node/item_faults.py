"""The fault of one partition, or of whatever else a request names many of, is that one's error and nobody else's."""

from __future__ import annotations

import logging

from barnabas.node.log_limiter import LogLimiter
from barnabas.wire.errors import ErrorCode, KafkaError

log = logging.getLogger("barnabas.requests")

_limiter = LogLimiter()


def item_error(error: Exception, item: str) -> KafkaError:
    """What the item is answered with. An error that nobody foresaw is told to the log, not to the client."""
    if isinstance(error, KafkaError):
        return error
    if _limiter.allows(type(error)):
        log.error("could not serve %s; the rest of its request was served", item, exc_info=error)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")
