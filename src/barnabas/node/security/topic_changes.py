"""What the requests that change topics cost: a token for each partition that comes into being or goes.

Of a request the topics within the quota are carried out, the others are answered with THROTTLING_QUOTA_EXCEEDED; older
versions have no such error, and are carried out whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.node.handlers import handler_module
from barnabas.node.ports import Metadata
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
EXCEEDED = "The throttling quota has been exceeded."


class _Change(NamedTuple):
    refused_since: int  # version
    results: str  # the field of the answer


CHANGES = {
    CREATE_TOPICS: _Change(6, "topics"),
    DELETE_TOPICS: _Change(5, "responses"),
    CREATE_PARTITIONS: _Change(3, "results"),
}


class TopicChanges:
    """How one API changes topics; each request has its own `plan`."""

    def __init__(self, api_key: int) -> None:
        self.api_key = api_key
        self.refused_since, self.results = CHANGES[api_key]

    @classmethod
    def of(cls, api_key: int) -> TopicChanges | None:
        return cls(api_key) if api_key in CHANGES else None

    def plan(self, request: Any, node: Metadata) -> Plan:
        return Plan(self, request, node)


class Plan:
    """What is done of one request, and what is refused."""

    def __init__(self, changes: TopicChanges, request: Any, node: Metadata) -> None:
        self._changes = changes
        self._request = request
        self._node = node
        self._accepted: dict[Any, int] = {}  # partitions by topic, or by its id
        self._accepted_items: list[Any] = []
        self._refused_items: list[Any] = []

    def costs(self) -> Iterator[tuple[Any, int]]:
        """Each topic of the request, and how many partitions it is about."""
        request = self._request
        for item in [*request.topics, *getattr(request, "topic_names", ())]:
            yield item, self._partitions(item)

    def accept(self, item: Any, partitions: int) -> None:
        self._accepted_items.append(item)
        self._accepted[_name(item)] = partitions

    def refuse(self, item: Any) -> None:
        self._refused_items.append(item)

    async def carry_out(self, handle: Callable[..., Any], context: RequestContext) -> tuple[Any, int]:
        """The answer, and how many partitions were left as they are."""
        request, field = self._request, self._changes.results
        if not self._refused_items:
            response = await handle(context, request, self._node)
        else:
            refused = _with_items(request, self._refused_items)
            error = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
            response = handler_module(self._changes.api_key).error_response(refused, error)
            if self._accepted_items:
                done = await handle(context, _with_items(request, self._accepted_items), self._node)
                setattr(response, field, getattr(done, field) + getattr(response, field))
        failed = [result for result in getattr(response, field) if result.error_code]
        unchanged = sum(self._accepted.pop(_name(result), 0) for result in failed)
        return response, unchanged

    def _partitions(self, item: Any) -> int:
        image = self._node.image
        if self._changes.api_key == CREATE_TOPICS:
            if item.assignments:
                return len(item.assignments)
            count: int = item.num_partitions
            return count if count > 0 else self._node.config.num_partitions
        name = item if isinstance(item, str) else item.name or image.topic_names.get(item.topic_id)
        topic = image.topics.get(name or "")
        existing = 0 if topic is None else len(topic.partitions)
        return existing if self._changes.api_key == DELETE_TOPICS else max(item.count - existing, 0)


def _name(item: Any) -> Any:
    return item if isinstance(item, str) else item.name or item.topic_id


def _with_items(request: Any, items: list[Any]) -> Any:
    changed: dict[str, Any] = {"topics": [item for item in items if not isinstance(item, str)]}
    if hasattr(request, "topic_names"):
        changed["topic_names"] = [item for item in items if isinstance(item, str)]
    return type(request)(**(vars(request) | changed))
