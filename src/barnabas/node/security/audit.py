"""The audit: a line of JSON for each denial and for each administrative action, in the logger `barnabas.audit`.

    {"at":"2026-01-02T03:04:05.678Z","node":1,"event":"denied","principal":"User:bob","host":"10.0.0.7",
     "operation":"READ","type":"TOPIC","name":"orders","by":"DefaultDeny"}
    {"at":...,"event":"administration","principal":"User:anna","host":...,"api":"CreateTopics","names":["orders"],
     "errors":[]}
    {"at":...,"event":"allowed",...}      only with barnabas.audit.allowed=true, once for each principal and right

With `barnabas.audit.topic` the lines also go into that topic. A kind of line has a budget of lines a minute, so nobody
fills the disk by being denied; the first line after that says in `left_out` how many were not written. A kind is
nothing that a client chooses: the operation and the type of the resource, or the API.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from barnabas.core.security.authorizer import Verdict
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.security.administrative import ADMINISTRATIVE, errors_of, names_of
from barnabas.wire.apis import message_classes
from barnabas.wire.errors import KafkaError

log = logging.getLogger("barnabas.audit")

DENIALS_PER_MINUTE = 10
ACTIONS_PER_MINUTE = 100
LEARNED_PER_MINUTE = 10_000
LEARNED_MAX = 50_000
MINUTE_S = 60.0


class Budget:
    """Lines a minute, for each of a fixed set of kinds."""

    def __init__(self, lines_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = lines_per_minute
        self._clock = clock
        self._written: dict[object, list[float]] = {}  # kind -> begin of the minute, lines, lines left out

    def take(self, kind: object) -> int | None:
        """None if nothing is to be written, else how many lines of this kind were left out before."""
        now = self._clock()
        state = self._written.setdefault(kind, [now, 0, 0])
        if now - state[0] >= MINUTE_S:
            state[0], state[1] = now, 0
        if state[1] >= self._most:
            state[2] += 1
            return None
        left_out, state[2] = int(state[2]), 0
        state[1] += 1
        return left_out


class Audit:
    def __init__(
        self,
        node_id: int,
        *,
        learns: bool = False,
        publish: Callable[[bytes], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`publish` takes a line for the topic, and does not block."""
        self._node_id = node_id
        self.learns = learns
        self.publish = publish
        self._denials = Budget(DENIALS_PER_MINUTE, clock)
        self._actions = Budget(ACTIONS_PER_MINUTE, clock)
        self._lessons = Budget(LEARNED_PER_MINUTE, clock)
        self._learned: set[tuple[str, Operation, Resource]] = set()

    def denied(self, principal: str, host: str, operation: Operation, resource: Resource, verdict: Verdict) -> None:
        left_out = self._denials.take((operation, resource.type))
        if left_out is not None:
            self._write(left_out, "denied", _decision(principal, host, operation, resource, verdict))

    def allowed(self, principal: str, host: str, operation: Operation, resource: Resource, verdict: Verdict) -> None:
        """Called for each decision while this node learns."""
        right = (principal, operation, resource)
        if right in self._learned:
            return
        left_out = self._lessons.take("allowed")
        if left_out is None:
            return
        if len(self._learned) >= LEARNED_MAX:
            self._learned.clear()
        self._learned.add(right)
        self._write(left_out, "allowed", _decision(principal, host, operation, resource, verdict))

    def wrap(self, route: Any, handle: Callable[..., Any]) -> Callable[..., Any]:
        """The handler of an administrative API, with a line behind it; any other as it is."""
        api_key: int = route.api_key
        if api_key not in ADMINISTRATIVE:
            return handle

        async def audited(context: RequestContext, request: Any, node: Any) -> Any:
            try:
                response = await handle(context, request, node)
            except KafkaError as error:
                self._acted(context, api_key, request, [error.code.name])
                raise
            self._acted(context, api_key, request, errors_of(response))
            return response

        return audited

    def _acted(self, context: RequestContext, api_key: int, request: Any, errors: list[str]) -> None:
        left_out = self._actions.take(api_key)
        if left_out is None:
            return
        names = names_of(api_key, request)
        told = {"principal": context.principal, "host": context.client_host, "listener": context.listener}
        told |= {
            "client": (context.client_id or "")[:100],
            "api": message_classes(api_key)[0].__name__.removesuffix("Request"),
        }
        self._write(left_out, "administration", told | {"names": names, "errors": errors})

    def _write(self, left_out: int, event: str, told: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "node": self._node_id, "event": event} | told
        if left_out:
            line["left_out"] = left_out
        text = json.dumps(line, separators=(",", ":"))
        log.info("%s", text)
        if self.publish is not None:
            self.publish(text.encode())


def _decision(principal: str, host: str, operation: Operation, resource: Resource, verdict: Verdict) -> dict[str, Any]:
    by = verdict.rule
    if verdict.entry is not None:
        entry = verdict.entry
        by = f"entry of {entry.principal} from {entry.host} on {entry.resource_name}"
    return {
        "principal": principal,
        "host": host,
        "operation": operation.name,
        "type": resource.type.name,
        "name": resource.name[:249],
        "by": by,
    }
