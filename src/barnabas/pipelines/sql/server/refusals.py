"""What is wrong with a request, as the REST API says it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.server.rights import Denied
from barnabas.pipelines.streams.errors import StreamsError, TopologyError
from barnabas.web.app import Answer

BAD_REQUEST, NOT_FOUND, SERVER_ERROR, UNAVAILABLE = 40000, 40400, 50000, 50300


def generic(message: str, code: int = BAD_REQUEST) -> Answer:
    return Answer({"@type": "generic_error", "error_code": code, "message": message}, code // 100)


def bad(error: SqlError, statement: str) -> Answer:
    body = {
        "@type": "statement_error",
        "error_code": error.code,
        "message": error.message,
        "statementText": statement,
        "entities": [],
    }
    return Answer(body, 400)


async def refused_or(work: Callable[[], Any], statement: str) -> Any:
    """The result of blocking work, or an Answer with what is wrong."""
    try:
        return await asyncio.to_thread(work)
    except Denied as error:
        return generic(error.message, error.code)
    except SqlError as error:
        return bad(error, statement)
    except (TopologyError, StreamsError, EvaluationError) as error:
        return bad(SqlError(str(error)), statement)
    except RecursionError:
        return bad(SqlError("The statement is nested too deeply."), statement)
    except ClientError as error:
        return generic(str(error), SERVER_ERROR)
