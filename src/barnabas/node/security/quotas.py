"""Quotas of clients, applied around handlers: bytes produced and fetched, time of requests, changes of topics.

A client that exceeds its limit is answered at once, with the time for which it has to keep still; for this time nothing
more is read from its connection. While no quota is set no handler is wrapped, so requests cost what they cost without.

Deviations from Kafka: a fetch that exceeds the limit is answered with its records before the client has to keep still
(Kafka sends an empty answer first), and the time of a request is that of its handler on the event loop. Changes of
topics are counted by the node that is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from types import coroutine
from typing import Any, NamedTuple, TypeVar

from barnabas.core.security.quota_limits import FETCH, MUTATION, PRODUCE, REQUEST, Entity, Limit, QuotaLimits
from barnabas.core.security.rates import TokenBucket, WindowedRate
from barnabas.node.requests import ListenerKind, RawResponse, RequestContext
from barnabas.node.security.topic_changes import TopicChanges
from barnabas.wire.schema import Response

T = TypeVar("T", WindowedRate, TokenBucket)

PRODUCE_KEY, FETCH_KEY = 0, 1
# The handshake of a login belongs to nobody yet.
EXEMPT = frozenset({17, 36})
# So many meters are kept, for clients choose their ids; then those that have nothing to tell are dropped.
METERS_MAX = 10_000
PERCENT_PER_NS = 100 / 1e9


class QuotaWindows(NamedTuple):
    samples: int = 11
    window_s: int = 1
    controller_samples: int = 11
    controller_window_s: int = 1


class Quotas:
    def __init__(self, windows: QuotaWindows, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._windows = windows
        self._clock = clock
        self._meters: dict[tuple[str, tuple[str | None, str | None]], WindowedRate | TokenBucket] = {}
        self.limits = QuotaLimits({})

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self.limits = QuotaLimits(quotas)

    @property
    def is_active(self) -> bool:
        return self.limits.holds_for_clients

    def wrap(self, route: Any, handle: Callable[..., Any]) -> Callable[..., Any]:
        """The handler of a route, with its quotas around it."""
        api_key: int = route.api_key
        if api_key in EXEMPT:
            return handle
        changes = TopicChanges.of(api_key)

        async def metered(context: RequestContext, request: Any, node: Any) -> Any:
            if context.listener_kind is ListenerKind.CONTROLLER or (api_key == FETCH_KEY and _is_replica(request)):
                return await handle(context, request, node)
            spent = Spent()
            if api_key == FETCH_KEY:
                self._bound_fetch(context, request)
            response = None
            try:
                if changes is None:
                    response = await timed(handle(context, request, node), spent)
                else:
                    response = await self._change(changes, handle, context, request, node)
                return response
            finally:
                self._charge(context, api_key, response, spent)

        return metered

    def _charge(
        self, context: RequestContext, api_key: int, response: Response | RawResponse | None, spent: Spent
    ) -> None:
        now_ms = self._clock() * 1000
        throttle_ms = min(
            self._record(context, REQUEST, spent.ns * PERCENT_PER_NS, now_ms), self._windows.window_s * 1000.0
        )
        if api_key == PRODUCE_KEY:
            throttle_ms = max(throttle_ms, self._record(context, PRODUCE, context.request_bytes, now_ms))
        elif api_key == FETCH_KEY and isinstance(response, RawResponse):
            size = 8 + sum(map(len, response.parts))
            throttle_ms = max(throttle_ms, self._record(context, FETCH, size, now_ms))
        self._throttle(context, throttle_ms)

    def _throttle(self, context: RequestContext, throttle_ms: float) -> None:
        throttle_ms = round(throttle_ms)
        if throttle_ms > context.throttle_time_ms:
            context.throttle_time_ms = throttle_ms
            context.session.keep_still(throttle_ms / 1000)

    def _record(self, context: RequestContext, kind: str, amount: float, now_ms: float) -> float:
        """For how long the client has to keep still."""
        limit = self._limit(context, kind)
        if limit is None:
            return 0.0
        windows = self._windows
        rate = self._meter(kind, limit, WindowedRate, windows.samples, windows.window_s)
        rate.record(amount, now_ms)
        return rate.throttle_ms(limit.per_s, now_ms)

    def _bound_fetch(self, context: RequestContext, request: Any) -> None:
        """No answer has more bytes than all windows together allow."""
        limit = self._limit(context, FETCH)
        if limit is not None:
            allowed = int(limit.per_s * (self._windows.samples - 1) * self._windows.window_s)
            request.max_bytes = min(request.max_bytes, max(allowed, 1))

    async def _change(
        self, changes: TopicChanges, handle: Callable[..., Any], context: RequestContext, request: Any, node: Any
    ) -> Any:
        limit = self._limit(context, MUTATION)
        if limit is None:
            return await handle(context, request, node)
        windows = self._windows
        bucket = self._meter(MUTATION, limit, TokenBucket, windows.controller_samples, windows.controller_window_s)
        now_ms = self._clock() * 1000
        may_refuse = context.api_version >= changes.refused_since
        plan = changes.plan(request, node)
        for topic, partitions in plan.costs():
            if may_refuse and bucket.tokens(limit.per_s, now_ms) < 0:
                plan.refuse(topic)
            else:
                plan.accept(topic, partitions)
                bucket.take(partitions, limit.per_s, now_ms)
        response, refunded = await plan.carry_out(handle, context)
        now_ms = self._clock() * 1000
        bucket.take(-refunded, limit.per_s, now_ms)
        self._throttle(context, bucket.throttle_ms(limit.per_s, now_ms))
        return response

    def _limit(self, context: RequestContext, kind: str) -> Limit | None:
        return self.limits.of(kind, context.principal.partition(":")[2], context.client_id or "")

    def _meter(self, kind: str, limit: Limit, meter: type[T], samples: int, window_s: float) -> T:
        key = (kind, limit.shared_by)
        found = self._meters.get(key)
        if found is None:
            if len(self._meters) >= METERS_MAX:
                now_ms = self._clock() * 1000
                self._meters = {each: kept for each, kept in self._meters.items() if not kept.is_idle(now_ms)}
                if len(self._meters) >= METERS_MAX:
                    self._meters.clear()
            found = self._meters[key] = meter(samples, window_s * 1000.0)
        assert isinstance(found, meter)
        return found


class Spent:
    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


@coroutine
def timed(handled: Coroutine[Any, Any, Any], spent: Spent) -> Generator[Any, Any, Any]:
    """Steps a coroutine and adds up the time of its steps; waiting is not counted."""
    failure: BaseException | None = None
    while True:
        started_ns = time.perf_counter_ns()
        try:
            awaited = handled.send(None) if failure is None else handled.throw(failure)
        except StopIteration as finished:
            return finished.value
        finally:
            spent.ns += time.perf_counter_ns() - started_ns
        failure = None
        try:
            yield awaited
        except BaseException as error:
            failure = error


def _is_replica(request: Any) -> bool:
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
