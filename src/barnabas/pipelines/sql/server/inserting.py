"""POST /inserts-stream: lines of a body that may never end. The first names the target, each other one is a row.

Acks come in the order of the rows, while more rows are read. Rows of one piece of the body are written together; the
next piece is read when they are acknowledged, so a sender that is faster than the topic is held back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.server.answers import encode
from barnabas.pipelines.sql.server.refusals import generic, refused_or
from barnabas.pipelines.sql.server.selecting import DELIMITED, PLAIN_JSON
from barnabas.pipelines.sql.server.service import SqlService
from barnabas.web.app import Answer
from barnabas.web.calls import Call
from barnabas.web.streamed import StreamedResponse

LINE_BYTES_MAX = 1024 * 1024
ROWS_AT_ONCE = 500


async def pieces(call: Call) -> AsyncIterator[list[bytes]]:
    """Whole lines, as they come; no limit to how long a sender may think."""
    rest = b""
    async for data in call.stream(idle_s=None):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        if lines := [one for one in lines if one.strip()]:
            yield lines
    if rest.strip():
        yield [rest]


def target_of(line: bytes) -> str:
    try:
        name = json.loads(line)["target"].strip()
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
    return str(name[1:-1]) if name[:1] == name[-1:] == "`" and len(name) > 2 else str(name).upper()


async def post_inserts_stream(service: SqlService, call: Call) -> Any:
    coming = pieces(call)
    first: list[bytes] = await anext(coming, [])
    target = target_of(first[0]) if first else ""
    if not target:
        return generic('The first line must be {"target": "NAME"}.')
    refused = await refused_or(lambda: service.check_insert(target), "")
    if isinstance(refused, Answer):
        return refused
    as_json = call.content_type == PLAIN_JSON
    acks = acknowledged(service, target, first[1:], coming)
    return StreamedResponse(in_array(acks) if as_json else acks, PLAIN_JSON if as_json else DELIMITED)


async def acknowledged(
    service: SqlService, target: str, lines: list[bytes], coming: AsyncIterator[list[bytes]]
) -> AsyncIterator[bytes]:
    yield b""  # the sender may wait for the status before it sends a row
    number = 0
    while True:
        for at in range(0, len(lines), ROWS_AT_ONCE):
            some = lines[at : at + ROWS_AT_ONCE]
            found = await asyncio.to_thread(inserted, service, target, some, number)
            number += len(some)
            yield b"".join(encode(one) + b"\n" for one in found)
            if found[-1].get("message") == INVALID:
                return
        try:
            lines = await anext(coming)
        except StopAsyncIteration:
            return


INVALID = "Invalid JSON in inserts stream"


def inserted(service: SqlService, target: str, lines: list[bytes], number: int) -> list[dict[str, Any]]:
    """An ack for each row; what is no JSON ends the stream."""
    waiting: list[Any] = []
    for line in lines:
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError
        except ValueError:
            waiting.append(SqlError(INVALID))
            break
        try:
            waiting.append(service.insert_row(target, row))
        except SqlError as error:
            waiting.append(error)
    return [ack(service, number + at, one) for at, one in enumerate(waiting)]


def ack(service: SqlService, number: int, one: Any) -> dict[str, Any]:
    try:
        if isinstance(one, SqlError):
            raise one
        service.kafka.delivered(one)
        return {"status": "ok", "seq": number}
    except SqlError as error:
        code = 40000 if error.message == INVALID else 50000
        return {"status": "error", "seq": number, "error_code": code, "message": error.message}


async def in_array(acks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    opened = False
    async for some in acks:
        for line in some.splitlines():
            yield (b",\n" if opened else b"[") + line
            opened = True
    yield b"]" if opened else b"[]"
