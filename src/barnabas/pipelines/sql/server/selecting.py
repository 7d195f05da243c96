"""SELECT and PRINT over HTTP: `/query`, `/query-stream`, and what a WebSocket shows of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response, StreamingResponse

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statements
from barnabas.pipelines.sql.server.answers import encode, row_json, schema_text
from barnabas.pipelines.sql.server.printing import printed
from barnabas.pipelines.sql.server.pushes import Tombstone
from barnabas.pipelines.sql.server.refusals import bad, refused_or
from barnabas.pipelines.sql.server.service import SqlService, WrongEndpoint
from barnabas.pipelines.sql.types import SqlType
from barnabas.web.app import Answer
from barnabas.web.calls import Call

JSON = "application/vnd.ksql.v1+json"
PLAIN_JSON = "application/json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
ROWS_WAITING_MAX = 1000


class Outlet:
    """Rows from a thread to a response: the thread waits where nobody takes them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._room = threading.Semaphore(ROWS_WAITING_MAX)
        self.closed = threading.Event()

    def rows(self, rows: list[Any]) -> bool:
        for row in rows:
            while not self._room.acquire(timeout=0.5):
                if self.closed.is_set():
                    return False
            self._put("row", row)
        return not self.closed.is_set()

    def all(self, rows: list[Any]) -> None:
        """Of a query that is over."""
        for row in rows:
            self._queue.put_nowait(("row", row))
        self._queue.put_nowait(("final", None))

    def done(self, final: str | None, error: str | None) -> None:
        self._put("error" if error else "final", error or final)

    def _put(self, kind: str, content: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (kind, content))

    async def take(self) -> tuple[str, Any]:
        found = await self._queue.get()
        if found[0] == "row":
            self._room.release()
        return found


@dataclass
class Begun:
    """A query that runs, or that is over if it is not live."""

    query_id: str
    names: tuple[str, ...]
    kinds: list[SqlType]
    limit: int | None
    live: bool
    outlet: Outlet

    def end(self, service: SqlService) -> None:
        """Nobody takes its rows any more."""
        self.outlet.closed.set()
        if (push := service.pushes.get(self.query_id)) is not None:
            push.stop()


def the_select(text: str, service: SqlService, variables: dict[str, str]) -> tree.Statement:
    statements = parse_statements(text, service.engine.metastore.types, variables)
    if len(statements) != 1:
        raise SqlError(f"Expected exactly one KSQL statement; found {len(statements)} instead")
    if not isinstance(statements[0], (tree.SelectStatement, tree.BatchSelect, tree.Print)):
        raise WrongEndpoint(f"Statement type `{type(statements[0]).__name__}' not supported for this resource")
    return statements[0]


async def begun(service: SqlService, statement: Any, properties: dict[str, Any], text: str) -> Begun | Answer:
    outlet = Outlet()
    found = await refused_or(lambda: service.select(statement, properties, outlet.rows, outlet.done), text)
    if isinstance(found, Answer):
        return found
    query_id, names, kinds, rows = found
    if rows is not None:
        outlet.all(rows)
    limit = statement.query.limit if isinstance(statement, tree.SelectStatement) else None
    return Begun(query_id, names, list(kinds), limit, rows is None, outlet)


async def answered(
    service: SqlService, call: Call, text: str, properties: dict[str, Any], variables: dict[str, str], style: Any
) -> Any:
    statement = await refused_or(lambda: looked_up(text, service, variables), text)
    if isinstance(statement, Answer):
        return statement
    if isinstance(statement, tuple):
        query_id, names, kinds, rows = statement
        return whole(style(Begun(query_id, names, kinds, None, False, Outlet())), rows)
    if isinstance(statement, tree.Print):
        if style is json_style:
            return bad(WrongEndpoint("PRINT is asked of /query."), text)
        return await print_topic(service, statement, text)
    query = await begun(service, statement, properties, text)
    if isinstance(query, Answer):
        return query
    stream = style(query)
    return StreamingResponse(streamed(service, query, stream), media_type=stream.media_type)


def looked_up(text: str, service: SqlService, variables: dict[str, str]) -> Any:
    """The rows of a pull query that looks like an earlier one, or the statement."""
    found = service.lookup(text)
    return the_select(text, service, variables) if found is None else found


def whole(style: Any, rows: list[Any]) -> Response:
    """All rows of a query that is over in one body."""
    body = b"".join([style.header(), *(style.row(one) for one in rows), style.end(None, None)])
    return Response(body, media_type=style.media_type)


async def streamed(service: SqlService, query: Begun, style: Any) -> AsyncIterator[bytes]:
    try:
        yield style.header()
        while True:
            kind, content = await query.outlet.take()
            if kind == "row":
                yield style.row(content)
                continue
            yield style.end(content if kind == "final" else None, content if kind == "error" else None)
            return
    finally:
        query.end(service)


def row_tree(row: Any, kinds: list[SqlType]) -> dict[str, Any]:
    columns: dict[str, Any] = {"columns": row_json(row, kinds)}
    return columns | {"tombstone": True} if isinstance(row, Tombstone) else columns


class old_style:
    """Of `/query`: one JSON array, a line for each row. Of a query that goes on, each line ends with its comma, so that
    readers of lines see it at once; of one that is over, all rows are known."""

    media_type = JSON

    def __init__(self, query: Begun) -> None:
        self.query = query
        self.given = 0

    def header(self) -> bytes:
        query = self.query
        header = {"header": {"queryId": query.query_id, "schema": schema_text(query.names, query.kinds)}}
        return b"[" + self.line(header, first=True)

    def row(self, row: Any) -> bytes:
        self.given += 1
        return self.line({"row": row_tree(row, self.query.kinds)})

    def line(self, tree: Any, *, first: bool = False) -> bytes:
        return encode(tree) + b",\n" if self.query.live else (b"" if first else b",\n") + encode(tree)

    def end(self, final: str | None, error: str | None) -> bytes:
        if error is not None:
            last: Any = {"errorMessage": {"@type": "generic_error", "error_code": 50000, "message": error}}
        elif self.query.live:
            last = {"finalMessage": final or "Query Completed"}
        elif self.query.limit is not None and self.given >= self.query.limit:
            last = {"finalMessage": "Limit Reached"}
        else:
            return b"]\n"
        return (b"" if self.query.live else b",\n") + encode(last) + b"]\n"


class delimited_style(old_style):
    """Of `/query-stream`: a line of JSON for the header and for each row."""

    media_type = DELIMITED

    def header(self) -> bytes:
        query = self.query
        kinds = [str(kind) for kind in query.kinds]
        return encode({"queryId": query.query_id, "columnNames": list(query.names), "columnTypes": kinds}) + b"\n"

    def row(self, row: Any) -> bytes:
        return encode(row_json(row, self.query.kinds)) + b"\n"

    def end(self, final: str | None, error: str | None) -> bytes:
        if error is None:
            return b""
        return encode({"@type": "generic_error", "error_code": 50000, "message": error}) + b"\n"


class json_style(delimited_style):
    """The same in one array."""

    media_type = PLAIN_JSON

    def header(self) -> bytes:
        return b"[" + super().header().rstrip(b"\n")

    def row(self, row: Any) -> bytes:
        return b",\n" + encode(row_json(row, self.query.kinds))

    def end(self, final: str | None, error: str | None) -> bytes:
        tail = super().end(final, error).rstrip(b"\n")
        return (b",\n" + tail if tail else b"") + b"]\n"


STYLES = {DELIMITED: delimited_style, JSON: old_style, PLAIN_JSON: json_style}


async def print_topic(service: SqlService, statement: tree.Print, text: str) -> Any:
    stopped = threading.Event()
    registry = service.engine.settings.get("ksql.schema.registry.url")
    lines = await refused_or(lambda: printed(service.kafka, statement, registry, stopped), text)
    if isinstance(lines, Answer):
        return lines

    async def stream() -> AsyncIterator[bytes]:
        try:
            async for one in lines_of(lines):
                yield one.encode()
        finally:
            stopped.set()

    return StreamingResponse(stream(), media_type="text/plain")


async def lines_of(lines: Any) -> AsyncIterator[str]:
    ended = object()
    while (found := await asyncio.to_thread(next, lines, ended)) is not ended:
        yield str(found)
