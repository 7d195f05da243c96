"""The REST API on 8088, as ksqlDB's clients ask it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import Response, StreamingResponse

from barnabas import __version__
from barnabas.client.errors import ClientError
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statements
from barnabas.pipelines.sql.server.answers import encode, row_json, schema_text, stores_tree
from barnabas.pipelines.sql.server.printing import printed
from barnabas.pipelines.sql.server.service import SqlService, WrongEndpoint
from barnabas.pipelines.streams.errors import StreamsError, TopologyError
from barnabas.web.app import Answer, Route, WebApp
from barnabas.web.calls import Call
from barnabas.web.metrics import HttpMetrics

KSQL_VERSION = "7.9.0"  # whose API this is like
JSON = "application/vnd.ksql.v1+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
TYPES = (JSON, "application/json", DELIMITED, "text/plain", "*/*")
ROWS_WAITING_MAX = 1000
NOT_RUNNING = (None, None)


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
    except SqlError as error:
        return bad(error, statement)
    except (TopologyError, StreamsError, EvaluationError) as error:
        return bad(SqlError(str(error)), statement)
    except RecursionError:
        return bad(SqlError("The statement is nested too deeply."), statement)
    except ClientError as error:
        return Answer({"@type": "generic_error", "error_code": 50000, "message": str(error)}, 500)


async def body_of(call: Call, *names: str) -> dict[str, Any] | Answer:
    try:
        found = json.loads(await call.body())
    except ValueError as error:
        return Answer({"@type": "generic_error", "error_code": 40000, "message": f"The body is no JSON: {error}"}, 400)
    if not isinstance(found, dict) or not any(isinstance(found.get(name), str) for name in names):
        message = f"The body must be an object with {' or '.join(names)}."
        return Answer({"@type": "generic_error", "error_code": 40000, "message": message}, 400)
    return found


async def post_ksql(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "ksql")
    if isinstance(body, Answer):
        return body
    if service.settings.queries_file is not None:
        message = "The server runs a file of queries and takes no statements."
        return Answer({"@type": "generic_error", "error_code": 50300, "message": message}, 503)
    text = body["ksql"]
    properties, variables = body.get("streamsProperties") or {}, body.get("sessionVariables") or {}
    found = await refused_or(lambda: service.execute(text, properties, variables), text)
    return found if isinstance(found, Answer) else Answer(found)


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


def the_select(text: str, service: SqlService, variables: dict[str, str]) -> tree.Statement:
    statements = parse_statements(text, service.engine.metastore.types, variables)
    if len(statements) != 1:
        raise SqlError(f"Expected exactly one KSQL statement; found {len(statements)} instead")
    if not isinstance(statements[0], (tree.SelectStatement, tree.Print)):
        raise WrongEndpoint(f"Statement type `{type(statements[0]).__name__}' not supported for this resource")
    return statements[0]


async def post_query(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "ksql", "sql")
    if isinstance(body, Answer):
        return body
    text = body.get("ksql") or body["sql"]
    variables = body.get("sessionVariables") or {}
    statement = await refused_or(lambda: the_select(text, service, variables), text)
    if isinstance(statement, tree.Print):
        return await print_topic(service, statement, text)
    return await select(service, statement, body.get("streamsProperties") or {}, text, old_style)


async def post_query_stream(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "sql")
    if isinstance(body, Answer):
        return body
    text = body["sql"]
    variables = body.get("sessionVariables") or {}
    statement = await refused_or(lambda: the_select(text, service, variables), text)
    if isinstance(statement, tree.Print):
        return bad(WrongEndpoint("PRINT is asked of /query."), text)
    wants_json = JSON in call.headers.get("accept", "") or "application/json" in call.headers.get("accept", "")
    style = json_style if wants_json else delimited_style
    return await select(service, statement, body.get("properties") or {}, text, style)


async def select(service: SqlService, statement: Any, properties: dict[str, Any], text: str, style: Any) -> Any:
    if isinstance(statement, Answer):
        return statement
    outlet = Outlet()
    found = await refused_or(lambda: service.select(statement, properties, outlet.rows, outlet.done), text)
    if isinstance(found, Answer):
        return found
    query_id, names, kinds, rows = found
    if rows is not None:
        for row in rows:
            outlet._put("row", row)
        outlet.done(None, None)
    stream = style(query_id, names, kinds, statement.query.limit, live=rows is None)
    return StreamingResponse(streamed(service, query_id, outlet, stream), media_type=stream.media_type)


async def streamed(service: SqlService, query_id: str, outlet: Outlet, style: Any) -> AsyncIterator[bytes]:
    try:
        yield style.header()
        while True:
            kind, content = await outlet.take()
            if kind == "row":
                yield style.row(content)
                continue
            yield style.end(content if kind == "final" else None, content if kind == "error" else None)
            return
    finally:
        outlet.closed.set()
        if (push := service.pushes.get(query_id)) is not None:
            push.stop()


class old_style:
    """POST /query: one JSON array, a line for each row. Of a query that goes on, each line ends with its comma, so that
    readers of lines see it at once; of one that is over, all rows are known."""

    media_type = JSON

    def __init__(self, query_id: str, names: Any, kinds: Any, limit: int | None, live: bool) -> None:
        self.query_id, self.names, self.kinds, self.limit, self.live = query_id, names, kinds, limit, live
        self.given = 0

    def header(self) -> bytes:
        header = {"header": {"queryId": self.query_id, "schema": schema_text(self.names, self.kinds)}}
        return b"[" + self.line(header, first=True)

    def row(self, row: Any) -> bytes:
        self.given += 1
        return self.line({"row": {"columns": row_json(row, self.kinds)}})

    def line(self, tree: Any, *, first: bool = False) -> bytes:
        return encode(tree) + b",\n" if self.live else (b"" if first else b",\n") + encode(tree)

    def end(self, final: str | None, error: str | None) -> bytes:
        if error is not None:
            last: Any = {"errorMessage": {"@type": "generic_error", "error_code": 50000, "message": error}}
        elif self.live:
            last = {"finalMessage": final or "Query Completed"}
        elif self.limit is not None and self.given >= self.limit:
            last = {"finalMessage": "Limit Reached"}
        else:
            return b"]\n"
        return (b"" if self.live else b",\n") + encode(last) + b"]\n"


class delimited_style(old_style):
    """POST /query-stream: a line of JSON for the header and for each row."""

    media_type = DELIMITED

    def header(self) -> bytes:
        kinds = [str(kind).replace("`", "`") for kind in self.kinds]
        return encode({"queryId": self.query_id, "columnNames": list(self.names), "columnTypes": kinds}) + b"\n"

    def row(self, row: Any) -> bytes:
        return encode(row_json(row, self.kinds)) + b"\n"

    def end(self, final: str | None, error: str | None) -> bytes:
        if error is None:
            return b""
        return encode({"@type": "generic_error", "error_code": 50000, "message": error}) + b"\n"


class json_style(delimited_style):
    media_type = "application/json"

    def header(self) -> bytes:
        return b"[" + super().header().rstrip(b"\n")

    def row(self, row: Any) -> bytes:
        return b",\n" + encode(row_json(row, self.kinds))

    def end(self, final: str | None, error: str | None) -> bytes:
        tail = super().end(final, error).rstrip(b"\n")
        return (b",\n" + tail if tail else b"") + b"]\n"


async def print_topic(service: SqlService, statement: tree.Print, text: str) -> Any:
    stopped = threading.Event()
    registry = service.engine.settings.get("ksql.schema.registry.url")
    lines = await refused_or(lambda: printed(service.kafka, statement, registry, stopped), text)
    if isinstance(lines, Answer):
        return lines

    async def stream() -> AsyncIterator[bytes]:
        ended = object()
        try:
            while (found := await asyncio.to_thread(next, lines, ended)) is not ended:
                yield str(found).encode()
        finally:
            stopped.set()

    return StreamingResponse(stream(), media_type="text/plain")


async def post_close_query(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "queryId")
    if isinstance(body, Answer):
        return body
    push = service.pushes.get(body["queryId"])
    if push is None:
        return Answer({"@type": "generic_error", "error_code": 40400, "message": "No query with that id"}, 400)
    push.stop()
    return Answer({})


async def post_inserts_stream(service: SqlService, call: Call) -> Any:
    """Lines: the target first, then a row each; acks come in their order."""
    lines = [one for one in (await call.body()).splitlines() if one.strip()]
    try:
        target = json.loads(lines[0])["target"].strip("`").upper() if lines else ""
    except (ValueError, KeyError, AttributeError, TypeError):
        target = ""
    if not target:
        message = 'The first line must be {"target": "NAME"}.'
        return Answer({"@type": "generic_error", "error_code": 40000, "message": message}, 400)

    async def acks() -> AsyncIterator[bytes]:
        for number, one in enumerate(lines[1:]):
            try:
                row = json.loads(one)
                await asyncio.to_thread(service.insert_row, target, row)
                yield encode({"status": "ok", "seq": number}) + b"\n"
            except (SqlError, ValueError, AttributeError) as error:
                yield encode({"status": "error", "seq": number, "error_code": 50000, "message": str(error)}) + b"\n"

    return StreamingResponse(acks(), media_type=DELIMITED)


async def get_info(service: SqlService, call: Call) -> Any:
    return {
        "KsqlServerInfo": {
            "version": KSQL_VERSION,
            "barnabasVersion": __version__,
            "kafkaClusterId": service.settings.service_id,
            "ksqlServiceId": service.settings.service_id,
            "serverStatus": "RUNNING" if service.commands.damage is None else "ERROR",
        }
    }


async def get_healthcheck(service: SqlService, call: Call) -> Any:
    return service.status()


async def get_cluster_status(service: SqlService, call: Call) -> Any:
    here = f"{service.settings.host}:{service.settings.port}"
    leadership, queries = service.leadership, list(service.queries.entries.values())
    status = {
        "hostAlive": True,
        "lastStatusUpdateMs": int(time.time() * 1000),
        "role": leadership.role,
        "activeStandbyPerQuery": {one.query.id: stores_tree(one) for one in queries},
        "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
    }
    if leadership.reason is not None:
        status["reason"] = leadership.reason
    return {"clusterStatus": {here: status}}


async def get_status(service: SqlService, call: Call) -> Any:
    return {"commandStatuses": {}}


async def get_command_status(service: SqlService, call: Call) -> Any:
    name = call.parameters["entity"].strip("`")
    found = name in service.engine.metastore.sources
    message = f"{name} {'exists' if found else 'does not exist'}"
    return {"status": "SUCCESS" if found else "ERROR", "message": message}


async def get_property(service: SqlService, call: Call) -> Any:
    return True


async def get_alive(service: SqlService, call: Call) -> Any:
    return {}


async def get_root(service: SqlService, call: Call) -> Any:
    return Response(status_code=307, headers={"location": "/info"})


async def post_terminate(service: SqlService, call: Call) -> Any:
    """Ends the service: its queries, and the topics it may delete."""
    found = await refused_or(lambda: service.execute("TERMINATE ALL;", {}, {}), "TERMINATE ALL;")
    return found if isinstance(found, Answer) else Answer(found)


ROUTES: tuple[Route[SqlService], ...] = (
    Route("GET", "/", get_root, TYPES),
    Route("POST", "/ksql", post_ksql, TYPES),
    Route("POST", "/ksql/terminate", post_terminate, TYPES),
    Route("POST", "/query", post_query, TYPES),
    Route("POST", "/query-stream", post_query_stream, TYPES),
    Route("POST", "/close-query", post_close_query, TYPES),
    Route("POST", "/inserts-stream", post_inserts_stream, TYPES),
    Route("GET", "/info", get_info, TYPES),
    Route("GET", "/v1/metadata", get_info, TYPES),
    Route("GET", "/healthcheck", get_healthcheck, TYPES),
    Route("GET", "/clusterStatus", get_cluster_status, TYPES),
    Route("GET", "/status", get_status, TYPES),
    Route("GET", "/status/{type}/{entity}/{action}", get_command_status, TYPES),
    Route("GET", "/is_valid_property/{name}", get_property, TYPES),
    Route("GET", "/chc/ready", get_alive, TYPES),
    Route("GET", "/chc/live", get_alive, TYPES),
)


def make_app(service: SqlService) -> WebApp[SqlService]:
    def gauges() -> list[tuple[str, str, float]]:
        states = [one.state for one in service.queries.entries.values()]
        return [
            ("barnabas_sql_persistent_queries", "Persistent queries.", len(states)),
            ("barnabas_sql_persistent_queries_failed", "Persistent queries in error.", states.count("ERROR")),
            ("barnabas_sql_active", "Whether this server runs the service's queries.", service.queries.active),
            ("barnabas_sql_push_queries", "Push queries that run.", len(service.pushes)),
        ]

    return WebApp(service, ROUTES, HttpMetrics("sql", gauges), error_type=JSON)
