"""GET /ws/query?request={"ksql": ...}: a query over a WebSocket.

The first message is the schema, a list of fields; then a message for each row, `{"row": {"columns": [...]}}`. The last
one is `{"error": "done"}`, or the sentence that says what is wrong, and the socket is closed. PRINT gives its lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import SourceColumn
from barnabas.pipelines.sql.server.answers import encode, field_tree
from barnabas.pipelines.sql.server.printing import printed
from barnabas.pipelines.sql.server.refusals import refused_or
from barnabas.pipelines.sql.server.selecting import Begun, begun, lines_of, row_tree, the_select
from barnabas.pipelines.sql.server.service import SqlService
from barnabas.web.app import Answer
from barnabas.web.frames import NORMAL

WRONG_REQUEST, FAILED = 1003, 1011
PATH = "/ws/query"


async def serve_socket(service: SqlService, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    if scope["path"] != PATH:
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept"})
    asking = asyncio.ensure_future(_answer(service, scope, send))
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not asking.done():
            asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _answer(service: SqlService, scope: Scope, send: Send) -> None:
    request = request_of(scope)
    if isinstance(request, str):
        await _close(send, WRONG_REQUEST, request)
        return
    text, properties, variables = request
    statement = await refused_or(lambda: the_select(text, service, variables), text)
    if isinstance(statement, tree.Print):
        await _print(service, statement, text, send)
        return
    found = statement if isinstance(statement, Answer) else await begun(service, statement, properties, text)
    if isinstance(found, Answer):
        await _close(send, WRONG_REQUEST, found.tree["message"])
        return
    try:
        code, message = await _rows(found, send)
    finally:
        found.end(service)
    await _close(send, code, message)


def request_of(scope: Scope) -> tuple[str, dict[str, Any], dict[str, str]] | str:
    """Statement, properties and variables; or a sentence."""
    given = parse_qs(scope["query_string"].decode("latin-1")).get("request", [""])[0]
    if not given:
        return "Error parsing request: missing request parameter"
    try:
        found = json.loads(given)
    except ValueError as error:
        return f"Error parsing request: {error}"
    if not isinstance(found, dict) or not isinstance(found.get("ksql"), str) or not found["ksql"].strip():
        return 'Error parsing request: "ksql" field of "request" must be populated'
    return found["ksql"], found.get("streamsProperties") or {}, found.get("sessionVariables") or {}


async def _rows(query: Begun, send: Send) -> tuple[int, str]:
    fields = [field_tree(SourceColumn(name, kind)) for name, kind in zip(query.names, query.kinds, strict=True)]
    await _text(send, encode(fields))
    while True:
        kind, content = await query.outlet.take()
        if kind != "row":
            return (FAILED, str(content)) if kind == "error" else (NORMAL, "done")
        await _text(send, encode({"row": row_tree(content, query.kinds)}))


async def _print(service: SqlService, statement: tree.Print, text: str, send: Send) -> None:
    stopped = threading.Event()
    registry = service.engine.settings.get("ksql.schema.registry.url")
    lines = await refused_or(lambda: printed(service.kafka, statement, registry, stopped), text)
    if isinstance(lines, Answer):
        await _close(send, WRONG_REQUEST, lines.tree["message"])
        return
    shown: AsyncIterator[str] = lines_of(lines)
    try:
        async for line in shown:
            await _text(send, encode(line.rstrip("\n")))
    finally:
        stopped.set()
    await _close(send, NORMAL, "done")


async def _text(send: Send, data: bytes) -> None:
    await send({"type": "websocket.send", "text": data.decode()})


async def _close(send: Send, code: int, message: str) -> None:
    await _text(send, encode({"error": message}))
    await send({"type": "websocket.close", "code": code, "reason": message})
