"""AlterConfigs and IncrementalAlterConfigs: a request in, ConfigRecords and an answer out.

A request is answered resource by resource: one that cannot be changed says why and does not hinder the others, and of
one resource either all changes are made or none. AlterConfigs says what a resource's configs shall be, the rest is
deleted; IncrementalAlterConfigs changes single keys: SET, DELETE, and for lists APPEND and SUBTRACT.

A record is written where a value changes. A broker's keys are written even if they stay the same: setting one again
is how a broker is told to read a file anew. Where eligible leaders are tracked, those of the topics concerned are
forgotten when `min.insync.replicas` changes: who is eligible depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.liveness import tracks_eligible_leaders
from barnabas.core.controller.partitions import RECORDS_PER_REQUEST_MAX
from barnabas.core.controller.topic_names import name_error
from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, MetadataImage
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_configs, incremental_alter_configs
from barnabas.wire.records.metadata import ClearElrRecord, ConfigRecord
from barnabas.wire.schema import Record

MIN_INSYNC_REPLICAS = "min.insync.replicas"
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
ALTERABLE = frozenset({TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE})

Changes = Mapping[str, str | None]
R = TypeVar("R", alter_configs.AlterConfigsResource, incremental_alter_configs.AlterConfigsResource)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigRules(Protocol):
    """What the configuration knows about keys and values."""

    def authorize(self, resource: ConfigResource) -> None:
        """Raises KafkaError if the caller may not change this resource."""

    def is_list(self, resource: ConfigResource, key: str) -> bool: ...

    def default(self, resource: ConfigResource, key: str) -> str | None:
        """The text of a key's default, to which a list that was never set is appended."""

    def check(
        self, image: MetadataImage, resource: ConfigResource, configs: Mapping[str, str], altered: Changes
    ) -> None:
        """Raises KafkaError if the resource cannot have these configs; `altered` are those that the request names."""


@Stepwise
def alter(
    image: MetadataImage, request: alter_configs.AlterConfigsRequest, rules: ConfigRules
) -> Steps[ControllerDecision[alter_configs.AlterConfigsResponse]]:
    def replaced(existing: Mapping[str, str], resource: alter_configs.AlterConfigsResource) -> Changes:
        _refuse_missing_values([config.name for config in resource.configs if config.value is None])
        deleted: dict[str, str | None] = dict.fromkeys(existing)
        return deleted | {config.name: config.value for config in resource.configs}

    records, errors = yield from _decide(image, request.resources, replaced, rules)
    responses = []
    for resource, error in zip(request.resources, errors, strict=True):
        yield
        responses.append(
            alter_configs.AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message or None if error else None,
            )
        )
    response = alter_configs.AlterConfigsResponse(responses=responses)
    return ControllerDecision([] if request.validate_only else records, response)


@Stepwise
def alter_incrementally(
    image: MetadataImage, request: incremental_alter_configs.IncrementalAlterConfigsRequest, rules: ConfigRules
) -> Steps[ControllerDecision[incremental_alter_configs.IncrementalAlterConfigsResponse]]:
    def changed(existing: Mapping[str, str], resource: incremental_alter_configs.AlterConfigsResource) -> Changes:
        return _apply(existing, resource, rules)

    records, errors = yield from _decide(image, request.resources, changed, rules)
    responses = []
    for resource, error in zip(request.resources, errors, strict=True):
        yield
        responses.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message or None if error else None,
            )
        )
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)
    return ControllerDecision([] if request.validate_only else records, response)


def _decide(
    image: MetadataImage,
    resources: Sequence[R],
    changes_of: Callable[[Mapping[str, str], R], Changes],
    rules: ConfigRules,
) -> Steps[tuple[list[Record], list[KafkaError | None]]]:
    named = [(resource.resource_type, resource.resource_name) for resource in resources]
    times = Counter(named)
    records: list[ConfigRecord] = []
    errors: list[KafkaError | None] = []
    for resource, name in zip(resources, named, strict=True):
        yield
        try:
            if times[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _refuse_twice([config.name for config in resource.configs])
            _refuse_type(name)
            rules.authorize(name)
            existing = image.configs.get(name, {})
            changes = changes_of(existing, resource)
            records += _checked_records(image, name, existing, changes, rules)
            errors.append(None)
        except KafkaError as error:
            errors.append(error)
        if len(records) > RECORDS_PER_REQUEST_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The request would make more than {RECORDS_PER_REQUEST_MAX} records of metadata.",
            )
    return [*records, *_cleared_leaders(image, records)], errors


def _checked_records(
    image: MetadataImage,
    resource: ConfigResource,
    existing: Mapping[str, str],
    changes: Changes,
    rules: ConfigRules,
) -> list[ConfigRecord]:
    _check_name(resource)
    merged = {**existing, **changes}
    rules.check(image, resource, {key: text for key, text in merged.items() if text is not None}, changes)
    kind, name = resource
    if kind == TOPIC_RESOURCE and name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=text)
        for key, text in changes.items()
        if kind == BROKER_RESOURCE or text != existing.get(key)
    ]


def _cleared_leaders(image: MetadataImage, records: Sequence[ConfigRecord]) -> list[ClearElrRecord]:
    if not tracks_eligible_leaders(image):
        return []
    changed = [record for record in records if record.name == MIN_INSYNC_REPLICAS]
    return [
        ClearElrRecord(topic_name=each.resource_name if each.resource_type == TOPIC_RESOURCE else "")
        for each in changed
    ]


def _refuse_twice(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A config key appears more than once.")


def _refuse_type(resource: ConfigResource) -> None:
    if resource[0] not in ALTERABLE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource[0]}")


def _refuse_missing_values(names: Sequence[str]) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A value is missing for: {', '.join(names)}")


def _check_name(resource: ConfigResource) -> None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "There are no default configs of all topics.")
        if error := name_error(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    elif not name and kind == GROUP_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "There are no default configs of all groups.")
    elif not name and kind == CLIENT_METRICS_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The name of a subscription must not be empty.")


def _apply(
    existing: Mapping[str, str], resource: incremental_alter_configs.AlterConfigsResource, rules: ConfigRules
) -> Changes:
    _refuse_missing_values(
        [each.name for each in resource.configs if each.value is None and each.config_operation != Operation.DELETE]
    )
    name = (resource.resource_type, resource.resource_name)
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        operation, value = _operation(name, config.config_operation), config.value or ""
        if operation is Operation.SET:
            changes[config.name] = value
        elif operation is Operation.DELETE:
            changes[config.name] = None
        else:
            if not rules.is_list(name, config.name):
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {config.name} because its type is not LIST.",
                )
            current = existing.get(config.name, rules.default(name, config.name))
            changes[config.name] = _changed_list(current or "", operation, value)
    return changes


def _operation(resource: ConfigResource, code: int) -> Operation:
    try:
        return Operation(code)
    except ValueError:
        if resource[0] == BROKER_RESOURCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {code}") from None
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _changed_list(current: str, operation: Operation, value: str) -> str:
    entries = [entry for entry in current.split(",") if entry]
    for entry in _split(value):
        if operation is Operation.APPEND and entry not in entries:
            entries.append(entry)
        elif operation is Operation.SUBTRACT and entry in entries:
            entries.remove(entry)
    return ",".join(entries)


def _split(value: str) -> list[str]:
    """As Java splits: empty entries at the end do not count, but an empty value is one empty entry."""
    entries = value.split(",")
    while value and entries and not entries[-1]:
        entries.pop()
    return entries
