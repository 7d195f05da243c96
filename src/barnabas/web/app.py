"""From a request to an answer: finds the route, chooses the type, turns refusals into bodies, counts and logs.

A handler takes the service and the call. It returns a tree for JSON, None for 204, an `Answer`, or a whole Response. It
raises HttpError for what is wrong with the request; anything else is told to the log and answered with 500.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from barnabas.web.calls import Call, chosen_type, take_apart
from barnabas.web.errors import HttpError, plain_error
from barnabas.web.metrics import EXPOSITION, HttpMetrics

log = logging.getLogger(__name__)
access_log = logging.getLogger("barnabas.access")

T = TypeVar("T")
Handler = Callable[[T, Call], Awaitable[Any]]
BODY_BYTES_MAX = 4 * 1024 * 1024


class Answer(NamedTuple):
    tree: Any
    status: int = 200
    headers: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Route(Generic[T]):
    method: str
    pattern: str  # /topics/{topic}/partitions
    handler: Handler[T]
    produces: tuple[str, ...] = ("application/json",)
    consumes: tuple[str, ...] = ()  # anything, if it is empty
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(each for each in self.pattern.split("/") if each))

    def fits(self, segments: Sequence[str]) -> bool:
        return len(segments) == len(self.segments) and all(
            mine == theirs or mine.startswith("{") for mine, theirs in zip(self.segments, segments, strict=True)
        )

    def parameters(self, segments: Sequence[str]) -> dict[str, str]:
        pairs = zip(self.segments, segments, strict=True)
        return {mine[1:-1]: theirs for mine, theirs in pairs if mine.startswith("{")}


class WebApp(Generic[T]):
    def __init__(
        self,
        service: T,
        routes: Sequence[Route[T]],
        metrics: HttpMetrics,
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        error_type: str = "application/json",
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._body_bytes_max = body_bytes_max
        self._error_type = error_type
        self._routes: dict[int, list[Route[T]]] = {}
        for route in routes:
            self._routes.setdefault(len(route.segments), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        begun = time.perf_counter()
        self._metrics.in_flight += 1
        route, response = "other", None
        try:
            route, response = await self._respond(request)
            await response(scope, receive, send)
        finally:
            took_s = time.perf_counter() - begun
            self._metrics.in_flight -= 1
            status = 499 if response is None else response.status_code
            self._metrics.count(request.method, route, status, took_s)
            access_log.debug("%s %s %s %.1f ms", request.method, request.url.path, status, took_s * 1000)

    async def _respond(self, request: Request) -> tuple[str, Response]:
        content_type, pattern = self._error_type, "other"
        try:
            call = take_apart(request, self._body_bytes_max)
            if call.segments == ["metrics"] and call.method in ("GET", "HEAD"):
                return "/metrics", Response(self._metrics.exposition(), headers={"content-type": EXPOSITION})
            route = self._route(call)
            pattern = route.pattern
            chosen = chosen_type(call.headers.get("accept", ""), route.produces)
            if chosen is None:
                raise plain_error(406)
            content_type = call.content_type = chosen
            return pattern, as_response(await route.handler(self._service, call), content_type)
        except HttpError as error:
            return pattern, as_response(Answer(error.tree, error.status), content_type)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return pattern, as_response(Answer(HttpError(500, 500, "Internal Server Error").tree, 500), content_type)

    def _route(self, call: Call) -> Route[T]:
        fitting = [each for each in self._routes.get(len(call.segments), ()) if each.fits(call.segments)]
        if not fitting:
            raise plain_error(404)
        exact = max(sum(not part.startswith("{") for part in each.segments) for each in fitting)
        fitting = [each for each in fitting if sum(not part.startswith("{") for part in each.segments) == exact]
        method = "GET" if call.method == "HEAD" else call.method
        fitting = [each for each in fitting if each.method == method]
        if not fitting:
            raise plain_error(405)
        sent = call.sent_type
        taking = [each for each in fitting if not sent or not each.consumes or sent in each.consumes]
        if not taking and method in ("POST", "PUT", "PATCH"):
            raise plain_error(415)
        route = (taking or fitting)[0]
        call.route, call.parameters = route.pattern, route.parameters(call.segments)
        return route


def as_response(answer: Any, content_type: str) -> Response:
    if isinstance(answer, Response):
        return answer
    if answer is None:
        return Response(status_code=204)
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    if answer.tree is None:
        return Response(status_code=answer.status, headers=dict(answer.headers))
    body = answer.tree if isinstance(answer.tree, bytes) else json_bytes(answer.tree)
    return Response(body, answer.status, {"content-type": content_type, **answer.headers})


def json_bytes(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
