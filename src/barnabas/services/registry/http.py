"""HTTP: paths, parameters, content types and statuses as Confluent's registry has them.

Paths are taken apart before they are decoded, so a subject may hold a slash. `/contexts/NAME/...` is the same path with
the subjects in it put into that context; then a subject that is an alias is replaced by what it stands for.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.forwarding import OFFSET, ForwardedAnswer
from barnabas.services.registry.quick import SUBJECTS, KeptAnswers
from barnabas.services.registry.records import encode_json
from barnabas.services.registry.service import Service
from barnabas.services.registry.settings import INT_MAX, Limits
from barnabas.services.registry.subjects import ANY_CONTEXT, CONTEXT_PREFIX, beside, context_prefix, normalized
from barnabas.web.calls import BODIES, chosen_type, parameters_of, read_body
from barnabas.web.errors import HttpError, plain_error
from barnabas.web.metrics import EXPOSITION

log = logging.getLogger(__name__)
access_log = logging.getLogger("barnabas.access")

V1 = "application/vnd.schemaregistry.v1+json"
PRODUCED = (V1, "application/vnd.schemaregistry+json", "application/json")
CONSUMED = frozenset((*PRODUCED, "application/octet-stream"))
NO_LIMITS = Limits(INT_MAX, INT_MAX)
LABELS = frozenset({"", "subjects", "schemas", "config", "mode", "compatibility", "contexts", "v1", "metrics"})


@dataclass(slots=True)
class Call:
    """A request, taken apart."""

    method: str
    segments: list[str]
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes = b""
    target: str = ""
    parameters: list[str] = field(default_factory=list)

    def text(self, name: str, default: str = "") -> str:
        return self.query[name][0] if self.query.get(name) else default

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        given = self.text(name)
        if not given:
            return default
        if not re.fullmatch(r"[+-]?\d{1,10}", given):
            raise plain_error(404)
        return int(given)

    def page(self, found: list[Any], limits: Limits | None) -> list[Any]:
        default, greatest = limits or NO_LIMITS
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return found[offset : offset + (limit if 0 < limit <= greatest else default)]


Handler = Callable[[Service, Call], Awaitable[Any]]
Routes = Mapping[tuple[str, ...], Mapping[str, Handler]]


def make_app(service: Service, routes: Routes, kept: KeptAnswers) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            begun = time.perf_counter()
            if request.url.path == "/metrics":
                response = Response(service.metrics.exposition(), headers={"content-type": EXPOSITION})
            else:
                epoch = service.state.epoch
                try:
                    response = await _respond(service, routes, request)
                finally:
                    BODIES.release(scope)
                if _may_be_kept(request, response):
                    kept.keep(scope["raw_path"], bytes(response.body), epoch)
            await response(scope, receive, send)
            took_s = time.perf_counter() - begun
            service.metrics.count(request.method, _label(request), response.status_code, took_s)
            access_log.debug("%s %s %s %.1f ms", request.method, request.url.path, response.status_code, took_s * 1000)

    return app


def _may_be_kept(request: Request, response: Response) -> bool:
    scope = request.scope
    if request.method != "GET" or response.status_code != 200 or scope["query_string"]:
        return False
    return bool(scope["raw_path"].startswith(SUBJECTS)) and response.headers["content-type"] == V1


def _label(request: Request) -> str:
    """The first part of a path, if it is one of ours: subjects are no labels."""
    first = request.url.path.split("/", 2)[1]
    return f"/{first}" if first in LABELS else "other"


async def _respond(service: Service, routes: Routes, request: Request) -> Response:
    content_type = V1
    try:
        chosen = chosen_type(request.headers.get("accept", ""), PRODUCED)
        if chosen is None:
            raise plain_error(406)
        content_type = chosen
        answer = await _answer(service, routes, request)
        changed = {OFFSET: str(service.position)} if request.method in ("POST", "PUT", "DELETE") else {}
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=204, headers=changed)
        body = answer if isinstance(answer, bytes) else encode_json(answer)
        return Response(body, media_type=None, headers={"content-type": content_type} | changed)
    except ForwardedAnswer as answer:
        return Response(answer.body, status_code=answer.status, headers={"content-type": answer.content_type})
    except HttpError as error:
        return _error(error, content_type)
    except Exception:
        log.exception("%s %s failed", request.method, request.url.path)
        return _error(RegistryError(500, 500, "Internal Server Error"), content_type)


def _error(error: HttpError, content_type: str) -> Response:
    body = encode_json(error.tree)
    return Response(body, status_code=error.status, headers={"content-type": content_type})


async def _answer(service: Service, routes: Routes, request: Request) -> Any:
    raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
    call = Call(
        method=request.method,
        segments=[unquote(each) for each in raw.split("/") if each],
        query=parameters_of(request),
        headers=request.headers,
    )
    query = request.scope["query_string"].decode("latin-1")
    call.target = f"{raw}?{query}" if query else raw
    _enter_context(call)
    _replace_alias(service, call)
    methods = _route(routes, call)
    if methods is None:
        raise plain_error(404)
    handler = methods.get("GET" if call.method == "HEAD" else call.method)
    if handler is None:
        raise plain_error(405)
    if call.method in ("POST", "PUT"):
        _check_consumed(request.headers.get("content-type"))
        call.body = await read_body(request, service.settings.body_bytes_max, held=True)
    try:
        return await handler(service, call)
    except RegistryError as error:
        if error.status != 404 or call.method not in ("GET", "HEAD") or service.reachable:
            raise
    # What is not known here may be known by others: who was cut off from Kafka looks again before it denies it.
    await service.catch_up(patient=True)
    return await handler(service, call)


def _route(routes: Routes, call: Call) -> Mapping[str, Handler] | None:
    for pattern, methods in routes.items():
        if len(pattern) == len(call.segments) and all(
            each in ("*", segment) for each, segment in zip(pattern, call.segments, strict=True)
        ):
            call.parameters = [segment for each, segment in zip(pattern, call.segments, strict=True) if each == "*"]
            return methods
    return None


def _enter_context(call: Call) -> None:
    if call.segments[:1] != ["contexts"] or len(call.segments) < 2:
        return
    try:
        context = context_prefix(call.segments[1])
    except ValueError as error:
        raise RegistryError(400, 400, str(error)) from None
    rest = call.segments[2:]
    if not rest:
        call.segments = ["contexts", context] if context else ["contexts"]
        return
    named = next(
        (at for at, each in enumerate(rest) if each == "subjects" or (not at and each in ("config", "mode"))), None
    )
    if named is not None and len(rest) > named + 1:
        rest[named + 1] = _qualified(context, rest[named + 1])
    elif rest[0] in ("config", "mode") and context:
        rest.append(context)
    call.segments = rest
    if rest[:2] == ["schemas", "ids"]:
        call.query["subject"] = [_qualified(context, call.text("subject"))]
    elif rest in (["schemas"], ["subjects"]):
        call.query["subjectPrefix"] = [_qualified(context, call.text("subjectPrefix"))]


def _qualified(context: str, subject: str) -> str:
    return subject if subject.startswith((CONTEXT_PREFIX, ANY_CONTEXT)) else context + subject


def _replace_alias(service: Service, call: Call) -> None:
    segments = call.segments
    if "subjects" in segments[:-1]:
        at = segments.index("subjects") + 1
        segments[at] = _aliased(service, segments[at])
    if segments[:2] == ["schemas", "ids"] and call.text("subject"):
        call.query["subject"] = [_aliased(service, call.text("subject"))]


def _aliased(service: Service, subject: str) -> str:
    subject = normalized(subject)
    alias = (service.state.config(subject) or {}).get("alias")
    return beside(subject, alias) if alias else subject


def _check_consumed(content_type: str | None) -> None:
    if content_type and content_type.partition(";")[0].strip().lower() not in CONSUMED:
        raise plain_error(415)
