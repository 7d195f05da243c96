"""What an administrative request is about, for the audit: names only, never a value, a password or a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from barnabas.core.security.model import Operation, ResourceType
from barnabas.wire.errors import ErrorCode

NAMES_MAX = 20
_OPERATIONS = frozenset(map(int, Operation))
_KINDS = frozenset(map(int, ResourceType))
NAME_CHARACTERS_MAX = 249


def _named(listed: str, name: str = "name") -> Callable[[Any], Iterable[str]]:
    return lambda request: (str(getattr(item, name)) for item in getattr(request, listed) or ())


def _listed(name: str) -> Callable[[Any], Iterable[str]]:
    return lambda request: map(str, getattr(request, name))


def _value(name: str) -> Callable[[Any], Iterable[str]]:
    return lambda request: (str(getattr(request, name)),)


def _nothing(request: Any) -> Iterable[str]:
    return ()


def _topics(request: Any) -> Iterable[str]:
    """Of DeleteTopics, which names topics or their ids."""
    named = (str(topic.name or topic.topic_id) for topic in request.topics)
    return named if request.topics else map(str, request.topic_names)


def _configs(request: Any) -> Iterable[str]:
    for resource in request.resources:
        keys = ",".join(sorted({each.name for each in islice(resource.configs, NAMES_MAX)}))
        yield f"{resource.resource_name}:{keys}"


def _acls(request: Any) -> Iterable[str]:
    for each in request.creations:
        yield f"{each.principal} {_operation(each.operation)} {_kind(each.resource_type)} {each.resource_name}"


def _acl_filters(request: Any) -> Iterable[str]:
    for each in request.filters:
        kind = _kind(each.resource_type_filter)
        yield f"{each.principal_filter} {_operation(each.operation)} {kind} {each.resource_name_filter}"


def _quotas(request: Any) -> Iterable[str]:
    for each in request.entries:
        yield ",".join(f"{part.entity_type}={part.entity_name}" for part in islice(each.entity, NAMES_MAX))


def _scram(request: Any) -> Iterable[str]:
    yield from (each.name for each in request.deletions)
    yield from (each.name for each in request.upsertions)


def _operation(code: int) -> str:
    return Operation(code).name if code in _OPERATIONS else str(code)


def _kind(code: int) -> str:
    return ResourceType(code).name if code in _KINDS else str(code)


ADMINISTRATIVE: dict[int, Callable[[Any], Iterable[str]]] = {
    19: _named("topics"),
    20: _topics,
    21: _named("topics"),
    30: _acls,
    31: _acl_filters,
    33: _configs,
    34: _named("dirs", "path"),
    37: _named("topics"),
    38: _nothing,
    39: _nothing,
    40: _nothing,
    42: _listed("groups_names"),
    43: _named("topic_partitions", "topic"),
    44: _configs,
    45: _named("topics"),
    47: _value("group_id"),
    49: _quotas,
    51: _scram,
    57: _named("feature_updates", "feature"),
    64: _value("broker_id"),
    80: _value("voter_id"),
    81: _value("voter_id"),
    91: _value("group_id"),
    92: _value("group_id"),
}


def names_of(api_key: int, request: Any) -> list[str]:
    return [name[:NAME_CHARACTERS_MAX] for name in islice(ADMINISTRATIVE[api_key](request), NAMES_MAX)]


def errors_of(response: Any) -> list[str]:
    """The errors of an answer, each once: its own, and those of its first elements."""
    codes: dict[int, None] = {}
    for value in (response, *(getattr(response, name, None) for name in _LISTS)):
        for item in islice(value, NAMES_MAX) if isinstance(value, list) else (value,):
            code = getattr(item, "error_code", 0)
            if code:
                codes[int(code)] = None
    return [ErrorCode(code).name for code in codes]


_LISTS = ("topics", "responses", "results", "filter_results", "entries", "replica_election_results")
