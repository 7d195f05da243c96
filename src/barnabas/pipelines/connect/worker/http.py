"""Connect's REST API."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.plugins import VERSION, find, need, plugins
from barnabas.pipelines.connect.worker.herder import Herder, RestError
from barnabas.pipelines.connect.worker.state import PAUSED, RUNNING, STOPPED
from barnabas.pipelines.connect.worker.validation import definition_of, describe, validate
from barnabas.web.app import BODY_BYTES_MAX
from barnabas.web.calls import read_body
from barnabas.web.errors import HttpError

log = logging.getLogger(__name__)
COMMIT = "4.3.1"
HEALTHY = {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
FORWARDED = "x-barnabas-forwarded"
FORWARD_S = 60
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


class Call:
    def __init__(self, request: Request, body: bytes) -> None:
        self.method = request.method
        raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
        self.segments = [unquote(each) for each in raw.split("/") if each]
        self.query = parse_qs(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self.body = body
        self.parameters: list[str] = []

    def flag(self, name: str, default: bool = False) -> bool:
        return str(self.query.get(name, [str(default)])[0]).lower() == "true"

    def tree(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise RestError(400, f"The body is no JSON: {error}") from None

    def settings(self) -> dict[str, str]:
        """A flat object of settings; null values are left out by who asks."""
        found = self.tree()
        if not isinstance(found, dict):
            raise RestError(400, "The body must be a JSON object with the connector's settings")
        if isinstance(found.get("config"), dict) and set(found) <= {"name", "config", "initial_state"}:
            raise RestError(
                400, "The body must be the settings alone: leave out the object with name and config around them"
            )
        return {name: setting_text(name, value) for name, value in found.items() if value is not None}


def setting_text(name: str, value: Any) -> str:
    if isinstance(value, dict | list):
        raise RestError(400, f"{name} must be a text, a number or a truth value, not {json.dumps(value)[:80]}")
    return str(value).lower() if isinstance(value, bool) else str(value)


Handler = Callable[[Herder, Call], Awaitable[Any]]


async def root(herder: Herder, _: Call) -> Any:
    return {"version": VERSION, "commit": COMMIT, "kafka_cluster_id": herder.cluster_id}


async def health(_: Herder, __: Call) -> Any:
    return HEALTHY


def info(herder: Herder, name: str) -> dict[str, Any]:
    settings = herder.need(name)
    plugin = find(settings.get("connector.class", ""), "source", "sink")
    tasks = [{"connector": name, "task": number} for number in range(herder.state.counts.get(name, 0))]
    return {"name": name, "config": settings, "tasks": tasks, "type": plugin.type if plugin else "unknown"}


def status(herder: Herder, name: str) -> dict[str, Any]:
    found = herder.state.statuses.get(name)
    if found is None:
        raise RestError(404, f"No status found for connector {name}")
    plugin = find(herder.state.connectors.get(name, {}).get("connector.class", ""), "source", "sink")
    tasks = [
        {"id": number} | shown(herder.state.task_statuses[name, number])
        for number in range(herder.state.counts.get(name, 0))
        if (name, number) in herder.state.task_statuses
    ]
    return {"name": name, "connector": shown(found), "tasks": tasks, "type": plugin.type if plugin else "unknown"}


def shown(found: Mapping[str, Any]) -> dict[str, Any]:
    names = ("state", "worker_id", "version", "trace")
    return {name: found[name] for name in names if found.get(name) is not None}


async def list_connectors(herder: Herder, call: Call) -> Any:
    names = sorted(herder.state.connectors)
    wanted = call.query.get("expand", [])
    if not wanted:
        return names
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        found[name] = {}
        if "status" in wanted and name in herder.state.statuses:
            found[name]["status"] = status(herder, name)
        if "info" in wanted:
            found[name]["info"] = info(herder, name)
    return found


async def create(herder: Herder, call: Call) -> Any:
    found = call.tree()
    if not isinstance(found, dict) or not isinstance(found.get("config"), dict):
        raise RestError(400, 'The body must be {"name": ..., "config": {...}}')
    name = str(found.get("name") or found["config"].get("name") or "").strip()
    if not name:
        raise RestError(400, "Connector name is missing")
    given = found["config"].get("name")
    if given is not None and found.get("name") and given != found["name"]:
        raise RestError(
            400, "Connector name configuration ({given}) doesn't match connector name in the URL ({name})".format(
                given=given, name=found["name"]
            )
        )  # fmt: skip
    initial = found.get("initial_state")
    if initial is not None and str(initial).upper() not in (RUNNING, PAUSED, STOPPED):
        raise RestError(400, f"initial_state must be RUNNING, PAUSED or STOPPED, not {initial}")
    if name in herder.state.connectors:
        raise RestError(409, f"Connector {name} already exists")
    settings = {key: setting_text(key, value) for key, value in found["config"].items() if value is not None}
    await herder.put(name, settings, initial)
    return JSONResponse(info(herder, name), 201, {"Location": f"/connectors/{name}"})


async def get_connector(herder: Herder, call: Call) -> Any:
    return info(herder, call.parameters[0])


async def delete_connector(herder: Herder, call: Call) -> Any:
    await herder.delete(call.parameters[0])


async def get_config(herder: Herder, call: Call) -> Any:
    return herder.need(call.parameters[0])


async def put_config(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]
    settings = call.settings()
    given = settings.get("name")
    if given is not None and given != name:
        raise RestError(400, f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    new = name not in herder.state.connectors
    await herder.put(name, settings)
    return JSONResponse(info(herder, name), 201 if new else 200, {"Location": f"/connectors/{name}"} if new else None)


async def patch_config(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]
    changes = call.tree()
    if not isinstance(changes, dict):
        raise RestError(400, "The body must be a JSON object with the settings to change")
    settings = dict(herder.need(name))
    for key, value in changes.items():
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = setting_text(key, value)
    await herder.put(name, settings)
    return info(herder, name)


async def get_status(herder: Herder, call: Call) -> Any:
    return status(herder, call.parameters[0])


async def get_tasks(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]
    herder.need(name)
    return [
        {"id": {"connector": name, "task": number}, "config": config}
        for number, config in enumerate(herder.state.task_configs(name))
    ]


async def get_task_configs(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]
    herder.need(name)
    return {f"{name}-{number}": config for number, config in enumerate(herder.state.task_configs(name))}


async def get_task_status(herder: Herder, call: Call) -> Any:
    name, number = call.parameters
    herder.need(name)
    found = herder.state.task_statuses.get((name, task_number(number)))
    if found is None:
        raise RestError(404, f"No status found for task {name}-{number}")
    return {"id": int(number)} | shown(found)


def task_number(text: str) -> int:
    if not text.isdigit():
        raise RestError(404, "HTTP 404 Not Found")
    return int(text)


async def restart_task(herder: Herder, call: Call) -> Any:
    name, number = call.parameters
    herder.restart_task(name, task_number(number))


async def restart(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]
    tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    await herder.restart(name, tasks=tasks, only_failed=only_failed)
    return JSONResponse(status(herder, name), 202) if tasks or only_failed else None


async def pause(herder: Herder, call: Call) -> Any:
    await herder.set_target(call.parameters[0], PAUSED)
    return Response(status_code=202)


async def resume(herder: Herder, call: Call) -> Any:
    await herder.set_target(call.parameters[0], RUNNING)
    return Response(status_code=202)


async def stop(herder: Herder, call: Call) -> Any:
    await herder.set_target(call.parameters[0], STOPPED)


async def get_topics(herder: Herder, call: Call) -> Any:
    name = call.parameters[0]  # one that is not there has no topics
    return {name: {"topics": sorted(herder.state.topics.get(name, {}))}}


async def reset_topics(herder: Herder, call: Call) -> Any:
    await herder.forget_topics(call.parameters[0])
    return Response(status_code=202)


async def get_logs(herder: Herder, call: Call) -> Any:
    """What happened to a connector's tasks since the worker started; Apache Connect has no such path."""
    name = call.parameters[0]
    herder.need(name)
    return {name: list(herder.logs.get(name, ()))}


async def get_offsets(herder: Herder, call: Call) -> Any:
    return {"offsets": await herder.read_offsets(call.parameters[0])}


async def patch_offsets(herder: Herder, call: Call) -> Any:
    found = call.tree()
    given = found.get("offsets") if isinstance(found, dict) else None
    if not isinstance(given, list) or not given:
        raise RestError(400, "Partitions / offsets need to be provided for an alter offsets request")
    if not all(isinstance(each, dict) and isinstance(each.get("partition"), dict) for each in given):
        raise RestError(400, 'Every offset is {"partition": {...}, "offset": {...} or null}')
    await herder.write_offsets(call.parameters[0], [(each["partition"], each.get("offset")) for each in given])
    return {"message": "The offsets for this connector have been altered successfully"}


async def delete_offsets(herder: Herder, call: Call) -> Any:
    await herder.write_offsets(call.parameters[0], None)
    return {"message": "The offsets for this connector have been reset successfully"}


async def list_plugins(_: Herder, call: Call) -> Any:
    kinds = ("source", "sink") if call.flag("connectorsOnly", True) else None
    return [
        {"class": each.name, "type": each.type, "version": each.version}
        for each in plugins()
        if kinds is None or each.type in kinds
    ]


async def plugin_config(_: Herder, call: Call) -> Any:
    try:
        plugin = need(call.parameters[0], *{each.type for each in plugins()}, setting="plugin")
    except ConfigError:
        raise RestError(404, f"Unknown plugin {call.parameters[0]}.") from None
    definition = getattr(plugin.load(), "definition", None)
    if definition is None:
        return []
    return [describe(each) for each in definition_of(plugin).settings.values()]


async def validate_config(herder: Herder, call: Call) -> Any:
    settings = call.settings()
    if "connector.class" not in settings:
        raise RestError(400, "Connector config contains no connector type")
    plugin = herder.plugin_of(settings)
    named = find(call.parameters[0], "source", "sink")
    if named is not None and named.name != plugin.name:
        raise RestError(400, f"Included connector type {settings['connector.class']} does not match request type "
                        f"{call.parameters[0]}")  # fmt: skip
    return validate(plugin, settings, herder.settings.defaults(), herder.settings)


async def list_loggers(_: Herder, __: Call) -> Any:
    names = [name for name, found in logging.root.manager.loggerDict.items() if getattr(found, "level", 0)]
    return {name: level_of(name) for name in ["root", *sorted(names)]}


def level_of(name: str) -> dict[str, Any]:
    found = logging.getLogger(None if name == "root" else name)
    text = logging.getLevelName(found.getEffectiveLevel())
    return {"level": {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(text, text), "last_modified": None}


async def get_logger(_: Herder, call: Call) -> Any:
    return level_of(call.parameters[0])


async def put_logger(_: Herder, call: Call) -> Any:
    name = call.parameters[0]
    level = str((call.tree() or {}).get("level", "")).upper()
    if level not in LEVELS:
        raise RestError(404, f"invalid log level '{level}'.")
    known = {"WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "CRITICAL", "TRACE": "DEBUG"}.get(level, level)
    logging.getLogger(None if name == "root" else name).setLevel(known)
    return [name]


async def metrics(herder: Herder, _: Call) -> Any:
    lines = ["# TYPE kafka_connect_connector_task_records_total counter"]
    for (name, task), count in sorted(herder.records.items()):
        lines.append(f'kafka_connect_connector_task_records_total{{connector="{name}",task="{task}"}} {count}')
    lines.append("# TYPE kafka_connect_worker_connector_count gauge")
    lines.append(f"kafka_connect_worker_connector_count {len(herder.state.connectors)}")
    states = [each.get("state") for each in herder.state.task_statuses.values()]
    for state in sorted({str(each) for each in states}):
        lines.append(f'kafka_connect_worker_task_count{{state="{state.lower()}"}} {states.count(state)}')
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


C = ("connectors", "*")
ROUTES: dict[tuple[str, ...], dict[str, Handler]] = {
    (): {"GET": root},
    ("health",): {"GET": health},
    ("metrics",): {"GET": metrics},
    ("connectors",): {"GET": list_connectors, "POST": create},
    C: {"GET": get_connector, "DELETE": delete_connector},
    (*C, "config"): {"GET": get_config, "PUT": put_config, "PATCH": patch_config},
    (*C, "status"): {"GET": get_status},
    (*C, "tasks"): {"GET": get_tasks},
    (*C, "tasks-config"): {"GET": get_task_configs},
    (*C, "tasks", "*", "status"): {"GET": get_task_status},
    (*C, "tasks", "*", "restart"): {"POST": restart_task},
    (*C, "restart"): {"POST": restart},
    (*C, "pause"): {"PUT": pause},
    (*C, "resume"): {"PUT": resume},
    (*C, "stop"): {"PUT": stop},
    (*C, "topics"): {"GET": get_topics},
    (*C, "topics", "reset"): {"PUT": reset_topics},
    (*C, "logs"): {"GET": get_logs},
    (*C, "offsets"): {"GET": get_offsets, "PATCH": patch_offsets, "DELETE": delete_offsets},
    ("connector-plugins",): {"GET": list_plugins},
    ("connector-plugins", "*", "config"): {"GET": plugin_config},
    ("connector-plugins", "*", "config", "validate"): {"PUT": validate_config},
    ("admin", "loggers"): {"GET": list_loggers},
    ("admin", "loggers", "*"): {"GET": get_logger, "PUT": put_logger},
}


def make_app(herder: Herder) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            response = await respond(herder, request)
            await response(scope, receive, send)

    return app


async def whole_body(request: Request) -> bytes:
    try:
        return await read_body(request, BODY_BYTES_MAX)
    except HttpError as error:
        raise RestError(error.status, str(error.tree["message"])) from None


def refusal(status: int) -> Mapping[str, Any]:
    """Of who shows no valid login, and of who may not; the sentence is Apache Connect's."""
    return {"error_code": status, "message": "User cannot access the resource."}


async def respond(herder: Herder, request: Request) -> Response:
    try:
        call = Call(request, await whole_body(request))
        methods = route(call)
        if methods is None:
            raise RestError(404, "HTTP 404 Not Found")
        handler = methods.get("GET" if call.method == "HEAD" else call.method)
        if handler is None:
            raise RestError(405, "HTTP 405 Method Not Allowed")
        forwarded = await forward(herder, request, call)
        if forwarded is not None:
            return forwarded
        found = await handler(herder, call)
        if isinstance(found, Response):
            return found
        return Response(status_code=204) if found is None else JSONResponse(found)
    except RestError as error:
        return JSONResponse({"error_code": error.status, "message": error.message}, error.status)
    except Exception as error:
        log.exception("%s %s failed", request.method, request.url.path)
        return JSONResponse({"error_code": 500, "message": f"{type(error).__name__}: {error}"}, 500)


async def forward(herder: Herder, request: Request, call: Call) -> Response | None:
    """To the worker that has to do it: restarts to the connector's owner, other changes to the leader."""
    if call.method in ("GET", "HEAD") or call.segments[0] != "connectors" or FORWARDED in request.headers:
        return None
    await herder.until_assigned()
    target = herder.leader
    if call.segments[-1] == "restart" and herder.assignment is not None:
        target = herder.assignment.owner(call.segments[1])
    if target == herder.settings.worker_id:
        return None
    query = request.scope["query_string"].decode("latin-1")
    path = request.scope["raw_path"].decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
    security = herder.settings.security
    # The caller's own password or token: the other worker knows the same users.
    authorization = "" if security.is_open else request.headers.get("authorization", "")
    url = f"{herder.settings.scheme}://{target}{path}"
    return await asyncio.to_thread(_forwarded, url, call, authorization, security.client_context())


def _forwarded(url: str, call: Call, authorization: str, tls: ssl.SSLContext | None) -> Response:
    headers = {"content-type": "application/json", FORWARDED: "true"}
    if authorization:
        headers["authorization"] = authorization
    request = urllib.request.Request(url, call.body or None, headers, method=call.method)
    try:
        with urllib.request.urlopen(request, timeout=FORWARD_S, context=tls) as answer:
            return Response(answer.read(), answer.status, media_type="application/json")
    except urllib.error.HTTPError as error:
        with error:
            return Response(error.read(), error.code, media_type="application/json")
    except OSError as error:
        raise RestError(500, f"The worker at {url} does not answer: {error}") from None


def route(call: Call) -> Mapping[str, Handler] | None:
    for pattern, methods in ROUTES.items():
        if len(pattern) == len(call.segments) and all(
            each in ("*", segment) for each, segment in zip(pattern, call.segments, strict=True)
        ):
            call.parameters = [segment for each, segment in zip(pattern, call.segments, strict=True) if each == "*"]
            return methods
    return None
