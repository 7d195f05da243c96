"""The REST API on 8088, as ksqlDB's clients ask it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from barnabas import __version__
from barnabas.pipelines.sql.server.answers import stores_tree
from barnabas.pipelines.sql.server.counts import Counts
from barnabas.pipelines.sql.server.inserting import post_inserts_stream
from barnabas.pipelines.sql.server.known_properties import is_known
from barnabas.pipelines.sql.server.refusals import NOT_FOUND, UNAVAILABLE, generic, refused_or
from barnabas.pipelines.sql.server.selecting import DELIMITED, JSON, PLAIN_JSON, STYLES, answered, old_style
from barnabas.pipelines.sql.server.service import SqlService
from barnabas.pipelines.sql.server.socketing import serve_socket
from barnabas.web.app import Answer, Route, WebApp
from barnabas.web.calls import Call
from barnabas.web.metrics import HttpMetrics

KSQL_VERSION = "7.9.0"  # whose API this is like
TYPES = (JSON, PLAIN_JSON, DELIMITED, "text/plain", "*/*")
STREAM_TYPES = (DELIMITED, PLAIN_JSON, JSON, "text/plain", "*/*")


async def body_of(call: Call, *names: str) -> dict[str, Any] | Answer:
    try:
        found = json.loads(await call.body())
    except (ValueError, RecursionError) as error:
        return generic(f"The body is no JSON: {error}")
    if not isinstance(found, dict) or not any(isinstance(found.get(name), str) for name in names):
        return generic(f"The body must be an object with {' or '.join(names)}.")
    for name in ("streamsProperties", "properties", "sessionVariables"):
        if not isinstance(found.get(name) or {}, dict):
            return generic(f"{name} must be an object.")
    return found


async def post_ksql(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "ksql")
    if isinstance(body, Answer):
        return body
    if service.settings.queries_file is not None:
        return generic("The server runs a file of queries and takes no statements.", UNAVAILABLE)
    text = body["ksql"]
    properties, variables = body.get("streamsProperties") or {}, body.get("sessionVariables") or {}
    seen = body.get("commandSequenceNumber")

    def execute() -> Any:
        if isinstance(seen, int):
            service.commands.wait_for(seen)
        return service.execute(text, properties, variables)

    found = await refused_or(execute, text)
    return found if isinstance(found, Answer) else Answer(found)


async def post_query(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "ksql", "sql")
    if isinstance(body, Answer):
        return body
    text = body.get("ksql") or body["sql"]
    properties = body.get("streamsProperties") or body.get("properties") or {}
    style = STYLES[DELIMITED] if call.content_type == DELIMITED else old_style
    return await answered(service, call, text, properties, body.get("sessionVariables") or {}, style)


async def post_query_stream(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "sql")
    if isinstance(body, Answer):
        return body
    style = STYLES.get(call.content_type, STYLES[DELIMITED])
    properties = body.get("properties") or body.get("streamsProperties") or {}
    return await answered(service, call, body["sql"], properties, body.get("sessionVariables") or {}, style)


async def post_close_query(service: SqlService, call: Call) -> Any:
    body = await body_of(call, "queryId")
    if isinstance(body, Answer):
        return body
    push = service.pushes.get(body["queryId"])
    if push is None:
        return generic(f"No query with id {body['queryId']}")
    push.stop()
    return Answer({})


async def get_info(service: SqlService, call: Call) -> Any:
    cluster_id = await asyncio.to_thread(service.kafka.cluster_id)
    return {
        "KsqlServerInfo": {
            "version": KSQL_VERSION,
            "barnabasVersion": __version__,
            "kafkaClusterId": cluster_id,
            "ksqlServiceId": service.settings.service_id,
            "serverStatus": "RUNNING" if service.commands.damage is None else "ERROR",
        }
    }


async def get_cluster_id(service: SqlService, call: Call) -> Any:
    cluster_id = await asyncio.to_thread(service.kafka.cluster_id)
    clusters = {"kafka-cluster": cluster_id, "ksql-cluster": service.settings.service_id}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def get_metadata(service: SqlService, call: Call) -> Any:
    return {"version": KSQL_VERSION, "clusterId": await get_cluster_id(service, call)}


async def get_healthcheck(service: SqlService, call: Call) -> Any:
    status = await asyncio.to_thread(service.status)
    return Answer(status, 200 if status["isHealthy"] else 503)


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
    return {"commandStatuses": {name: one["status"] for name, one in list(service.commands.statuses.items())}}


async def get_command_status(service: SqlService, call: Call) -> Any:
    kind, name, action = (call.parameters[one] for one in ("type", "entity", "action"))
    for spelled in (name, f"`{name}`", name.strip("`")):
        found = service.commands.statuses.get(f"{kind}/{spelled}/{action}")
        if found is not None:
            return found
    return generic("Command not found", NOT_FOUND)


async def get_property(service: SqlService, call: Call) -> Any:
    name = call.parameters["name"]
    if not is_known(name):
        return generic(f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'")
    return Answer(True)


async def get_alive(service: SqlService, call: Call) -> Any:
    return {}


async def post_heard(service: SqlService, call: Call) -> Any:
    """Servers of ksqlDB tell each other that they live and how far they are. Ours learn it from the group."""
    return {"isOk": True}


async def get_root(service: SqlService, call: Call) -> Any:
    return Response(status_code=307, headers={"location": "/info"})


async def post_terminate(service: SqlService, call: Call) -> Any:
    """Ends the service: its queries, and the topics it may delete."""
    data = await call.body()
    try:
        patterns = (json.loads(data) if data.strip() else {}).get("deleteTopicList") or []
    except (ValueError, AttributeError):
        return generic("The body must be an object with deleteTopicList.")
    found = await refused_or(lambda: service.terminate([str(one) for one in patterns]), "TERMINATE CLUSTER;")
    return found if isinstance(found, Answer) else Answer(found)


ROUTES: tuple[Route[SqlService], ...] = (
    Route("GET", "/", get_root, TYPES),
    Route("POST", "/ksql", post_ksql, TYPES),
    Route("POST", "/ksql/terminate", post_terminate, TYPES),
    Route("POST", "/query", post_query, TYPES),
    Route("POST", "/query-stream", post_query_stream, STREAM_TYPES),
    Route("POST", "/close-query", post_close_query, TYPES),
    Route("POST", "/inserts-stream", post_inserts_stream, STREAM_TYPES),
    Route("GET", "/info", get_info, TYPES),
    Route("GET", "/v1/metadata", get_metadata, TYPES),
    Route("GET", "/v1/metadata/id", get_cluster_id, TYPES),
    Route("GET", "/healthcheck", get_healthcheck, TYPES),
    Route("GET", "/clusterStatus", get_cluster_status, TYPES),
    Route("GET", "/status", get_status, TYPES),
    Route("GET", "/status/{type}/{entity}/{action}", get_command_status, TYPES),
    Route("GET", "/is_valid_property/{name}", get_property, TYPES),
    Route("POST", "/heartbeat", post_heard, TYPES),
    Route("POST", "/lag", post_heard, TYPES),
    Route("GET", "/chc/ready", get_alive, TYPES),
    Route("GET", "/chc/live", get_alive, TYPES),
)


class SqlApp(WebApp[SqlService]):
    """HTTP, and the WebSocket."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await serve_socket(self._service, scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def make_app(service: SqlService) -> SqlApp:
    def gauges() -> list[tuple[str, str, float]]:
        entries = dict(service.queries.entries)
        states = [one.state for one in entries.values()]
        counts = sum(map(service.queries.counts, entries), Counts())
        return [
            ("barnabas_sql_persistent_queries", "Persistent queries.", len(states)),
            ("barnabas_sql_persistent_queries_failed", "Persistent queries in error.", states.count("ERROR")),
            ("barnabas_sql_active", "Whether this server runs the service's queries.", service.queries.active),
            ("barnabas_sql_records_read", "Records that running queries have read.", counts.read),
            ("barnabas_sql_records_unreadable", "Records that they could not read.", counts.unreadable),
            ("barnabas_sql_records_written", "Records that they have written.", counts.written),
            ("barnabas_sql_push_queries", "Push queries that run.", len(service.pushes)),
        ]

    return SqlApp(service, ROUTES, HttpMetrics("sql", gauges), error_type=JSON)
