"""A request, taken apart: path, parameters, headers, and a body of bounded size that comes in bounded time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from barnabas.web.errors import HttpError, plain_error

BODY_TIMEOUT_S = 30.0
PARAMETERS_MAX = 1_000
BODIES_BYTES_MAX = 256 * 1024 * 1024


class Bodies:
    """The bytes of all bodies that this process reads or holds for requests under way. A thousand clients that send
    large bodies slowly are told to come again, and take no more memory than this."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held = 0

    def take(self, scope: Scope, size: int) -> None:
        self.hold(scope, scope.get(HELD, 0) + size)

    def hold(self, scope: Scope, size: int) -> None:
        """What this request holds now, more or less than before."""
        more = size - scope.get(HELD, 0)
        if more > 0 and self.held + more > self.bytes_max:
            raise HttpError(503, 503, "The service holds too many large requests: try again.")
        self.held += more
        scope[HELD] = size

    def release(self, scope: Scope) -> None:
        self.held -= scope.pop(HELD, 0)


HELD = "barnabas.body_bytes"
BODIES = Bodies()


@dataclass(slots=True)
class Call:
    request: Request
    method: str
    path: str  # not decoded
    segments: list[str]
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body_bytes_max: int
    route: str = ""  # the pattern that fitted
    parameters: dict[str, str] = field(default_factory=dict)
    content_type: str = ""  # of the answer

    def text(self, name: str, default: str = "") -> str:
        return self.query[name][0] if self.query.get(name) else default

    @property
    def base_url(self) -> str:
        """As the client spelt it."""
        return f"{self.request.url.scheme}://{self.headers.get('host') or 'localhost'}"

    @property
    def sent_type(self) -> str:
        """Of the body, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        return await read_body(self.request, self.body_bytes_max)

    async def tree(self) -> Any:
        """The body as JSON; None if it is empty."""
        data = await self.body()
        if not data.strip():
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise HttpError(400, 400, "The body is not JSON.") from None

    def stream(self, idle_s: float | None = BODY_TIMEOUT_S) -> AsyncIterator[bytes]:
        """The body as it comes. Whoever sends nothing for a while is sent away, unless there is no such limit."""
        return _stream(self.request, idle_s=idle_s)


def take_apart(request: Request, body_bytes_max: int) -> Call:
    raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
    segments = [unquote(each) for each in raw.split("/") if each]
    return Call(request, request.method, raw, segments, parameters_of(request), request.headers, body_bytes_max)


def parameters_of(request: Request) -> dict[str, list[str]]:
    query = request.scope["query_string"].decode("latin-1")
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise plain_error(400) from None


async def read_body(
    request: Request, bytes_max: int, timeout_s: float = BODY_TIMEOUT_S, *, held: bool = False
) -> bytes:
    """With `held` the body counts until who asked for it calls `BODIES.release`, otherwise until it is read."""
    too_large = HttpError(413, 413, f"The body is larger than {bytes_max} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > bytes_max:
        raise too_large
    parts, size = [], 0
    until = time.monotonic() + timeout_s
    try:
        async for part in _stream(request, until):
            size += len(part)
            if size > bytes_max:
                raise too_large
            BODIES.take(request.scope, len(part))
            parts.append(part)
    except TimeoutError:
        raise HttpError(408, 408, f"The body did not arrive within {timeout_s:g} s") from None
    finally:
        if not held:
            BODIES.release(request.scope)
    return b"".join(parts)


async def _stream(
    request: Request, until: float | None = None, *, idle_s: float | None = BODY_TIMEOUT_S
) -> AsyncIterator[bytes]:
    parts = request.stream()
    while True:
        left_s = idle_s if until is None else max(until - time.monotonic(), 0)
        try:
            async with asyncio.timeout(left_s):
                part = await anext(parts)
        except StopAsyncIteration:
            return
        except ClientDisconnect:
            raise HttpError(400, 400, "The body ended too early") from None
        if part:
            yield part


def chosen_type(accept: str, produced: tuple[str, ...]) -> str | None:
    """The type of the answer that the client likes best, or None if it likes none."""
    best, best_weight = None, 0.0
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (each.strip() for each in part.split(";"))
        weight = _weight(parameters)
        for kind in produced:
            if name.lower() in ("*/*", "application/*", kind) and weight > best_weight:
                best, best_weight = kind, weight
                break
    return best


def _weight(parameters: list[str]) -> float:
    for each in parameters:
        if each.startswith("q="):
            try:
                return float(each[2:])
            except ValueError:
                return 0.0
    return 1.0
