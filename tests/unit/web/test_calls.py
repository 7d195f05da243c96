"""Bodies of bounded size, in bounded time, in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from barnabas.web import calls
from barnabas.web.calls import Bodies, parameters_of, read_body
from barnabas.web.errors import HttpError


def request(parts: Iterable[bytes], *, stalls: bool = False, query: bytes = b"") -> Request:
    waiting = list(parts)

    async def receive() -> dict[str, Any]:
        if waiting:
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting) or stalls}
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "headers": [], "path": "/", "query_string": query}
    return Request(scope, receive)


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    small = Bodies(100)
    monkeypatch.setattr(calls, "BODIES", small)
    return small


def refused(body: Any) -> int:
    with pytest.raises(HttpError) as error:
        asyncio.run(body)
    return error.value.status


def test_a_body_counts_while_it_is_read(bodies: Bodies) -> None:
    assert asyncio.run(read_body(request([b"x" * 60, b"y" * 40]), 1_000)) == b"x" * 60 + b"y" * 40
    assert bodies.held == 0


def test_bodies_together_have_a_limit(bodies: Bodies) -> None:
    async def story() -> None:
        slow = [asyncio.ensure_future(read_body(request([b"x" * 40], stalls=True), 1_000)) for _ in range(2)]
        await asyncio.sleep(0)
        assert bodies.held == 80
        with pytest.raises(HttpError) as error:
            await read_body(request([b"x" * 40]), 1_000)
        assert error.value.status == 503
        assert await read_body(request([b"x" * 20]), 1_000) == b"x" * 20
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    asyncio.run(story())
    assert bodies.held == 0


def test_a_body_that_is_held_counts_until_it_is_released(bodies: Bodies) -> None:
    asked = request([b"x" * 40])
    asyncio.run(read_body(asked, 1_000, held=True))
    assert bodies.held == 40
    bodies.release(asked.scope)
    bodies.release(asked.scope)
    assert bodies.held == 0


def test_a_stream_counts_with_what_it_holds_now(bodies: Bodies) -> None:
    asked = request([])
    bodies.hold(asked.scope, 80)
    bodies.hold(asked.scope, 10)
    assert bodies.held == 10
    with pytest.raises(HttpError):
        bodies.hold(asked.scope, 101)
    bodies.release(asked.scope)
    assert bodies.held == 0


def test_too_large_and_too_slow(bodies: Bodies) -> None:
    assert refused(read_body(request([b"x" * 60]), 50)) == 413
    assert refused(read_body(request([b"x"], stalls=True), 50, timeout_s=0.01)) == 408
    assert bodies.held == 0


def test_parameters_without_end() -> None:
    with pytest.raises(HttpError) as error:
        parameters_of(request([], query=b"&".join(b"a=1" for _ in range(2_000))))
    assert error.value.status == 400
