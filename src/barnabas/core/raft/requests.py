"""Requests on their way: one per peer, with a time limit, and a pause after one that failed.

What is sent by a replica in an earlier state is forgotten with `clear`, so that late answers to it find nobody waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from barnabas.core.raft.messages import Node
from barnabas.core.raft.state import NEVER_MS
from barnabas.wire.schema import Request


@dataclass(slots=True)
class _Connection:
    node: Node
    request: Request
    correlation_id: int
    deadline_ms: int
    is_backing_off: bool = False


class Requests:
    def __init__(
        self, bootstrap: Sequence[Node], random: Random, *, request_timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self._bootstrap = bootstrap
        self._random = random
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._connections: dict[int, _Connection] = {}
        self._next_correlation_id = 0

    def clear(self) -> None:
        self._connections.clear()

    def forget(self, node_id: int) -> None:
        self._connections.pop(node_id, None)

    def start(self, node: Node, request: Request, now_ms: int) -> int | None:
        """An id for a request to this peer; None if another is on its way to it or it is given a pause."""
        self._expire(now_ms)
        if node.id in self._connections:
            return None
        self._next_correlation_id += 1
        self._connections[node.id] = _Connection(
            node, request, self._next_correlation_id, now_ms + self._request_timeout_ms
        )
        return self._next_correlation_id

    def awaited(self, correlation_id: int) -> tuple[Node, Request] | None:
        """The peer and the request that this answer is awaited for."""
        for connection in self._connections.values():
            if connection.correlation_id == correlation_id and not connection.is_backing_off:
                return connection.node, connection.request
        return None

    def finish(self, node_id: int, correlation_id: int, *, succeeded: bool, now_ms: int) -> None:
        connection = self._connections.get(node_id)
        if connection is None or connection.correlation_id != correlation_id:
            return  # The answer has put this replica in another state.
        if succeeded:
            del self._connections[node_id]
        else:
            connection.is_backing_off = True
            connection.deadline_ms = now_ms + self._retry_backoff_ms

    def has_timed_out(self, node_id: int, now_ms: int) -> bool:
        connection = self._connections.get(node_id)
        return connection is not None and not connection.is_backing_off and now_ms >= connection.deadline_ms

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        connection = self._connections.get(node_id)
        return connection is not None and connection.is_backing_off and now_ms < connection.deadline_ms

    def any_in_flight(self, now_ms: int) -> bool:
        self._expire(now_ms)
        return any(not connection.is_backing_off for connection in self._connections.values())

    def ready_bootstrap_server(self, now_ms: int) -> Node | None:
        if self.any_in_flight(now_ms) or not self._bootstrap:
            return None
        start = self._random.randrange(len(self._bootstrap))
        candidates = (*self._bootstrap[start:], *self._bootstrap[:start])
        return next((node for node in candidates if node.id not in self._connections), None)

    def next_deadline_ms(self, now_ms: int) -> int:
        self._expire(now_ms)
        return min((connection.deadline_ms for connection in self._connections.values()), default=NEVER_MS)

    def _expire(self, now_ms: int) -> None:
        over = [node_id for node_id, connection in self._connections.items() if connection.deadline_ms <= now_ms]
        for node_id in over:
            del self._connections[node_id]
