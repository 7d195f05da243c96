"""CreateTopics: a request in, records and an answer out.

A request is answered topic by topic: one that cannot be created says why and does not hinder the others. The records
of those that can form one batch. Order within a topic: its TopicRecord, its configs, its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.partitions import (
    RECORDS_PER_REQUEST_MAX,
    check_assignment,
    partition_records,
    place,
)
from barnabas.core.controller.topic_names import CLUSTER_METADATA_TOPIC, can_collide, name_error, named_twice, unified
from barnabas.core.metadata.state import TOPIC_RESOURCE, MetadataImage
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.records.metadata import ConfigRecord, TopicRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

PARTITIONS_PER_REQUEST_MAX = 10_000
DEFAULT = -1
TOPIC_CONFIG_SOURCE = 1


def everybody(name: str) -> bool:
    return True


class TopicConfigRules(Protocol):
    """What the configuration knows about a topic's configs."""

    def check(self, image: MetadataImage, configs: dict[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG if a topic cannot have these configs."""

    def effective(self, image: MetadataImage, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
        """All configs of a topic that has these of its own, with their sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRules:
    """What a decision about new topics needs besides image and request."""

    num_partitions: int
    replication_factor: int
    configs: TopicConfigRules
    random: Random
    new_id: Callable[[], Uuid]
    may_create: Callable[[str], bool] = everybody
    may_describe_configs: Callable[[str], bool] = everybody


@Stepwise
def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, rules: CreationRules
) -> Steps[ControllerDecision[CreateTopicsResponse]]:
    duplicates = named_twice(topic.name for topic in request.topics)
    wanted: list[CreatableTopic] = []
    refused = [_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in duplicates]
    for topic in request.topics:
        yield
        if topic.name in duplicates:
            continue
        if topic.name == CLUSTER_METADATA_TOPIC:
            refused.append(
                _refused(
                    topic.name,
                    ErrorCode.INVALID_REQUEST,
                    f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
                )
            )
        elif not rules.may_create(topic.name):
            refused.append(_refused(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "You may not create this topic."))
        else:
            wanted.append(topic)
    _check_size(wanted, rules)
    creation = _Creation(image, rules)
    results = []
    for topic in wanted:
        yield
        results.append((yield from creation.create(topic)))
    records = [] if request.validate_only else creation.records
    return ControllerDecision(records, CreateTopicsResponse(topics=results + refused))


def _refused(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _check_size(topics: Sequence[CreatableTopic], rules: CreationRules) -> None:
    """A request that is too large is refused whole."""
    partitions = 0
    for topic in topics:
        if topic.assignments:
            partitions += len(topic.assignments)
        else:
            partitions += rules.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{partitions} partitions in one request are too many: {PARTITIONS_PER_REQUEST_MAX} are allowed.",
        )


class _Creation:
    """The topics of one request, one after the other, and the records that make them."""

    def __init__(self, image: MetadataImage, rules: CreationRules) -> None:
        self.image = image
        self.rules = rules
        self.records: list[Record] = []
        self._unified_names: dict[str, str] | None = None
        self._default_configs: list[CreatableTopicConfigs] | None = None

    def create(self, topic: CreatableTopic) -> Steps[CreatableTopicResult]:
        try:
            self._check_name(topic.name)
            configs = self._checked_configs(topic)
            assignments, fenced = self._assignments(topic)
            topic_id = self.rules.new_id()
            partitions = yield from partition_records(self.image, topic_id, 0, assignments, fenced)
        except KafkaError as error:
            return _refused(topic.name, error.code, error.message)
        if len(self.records) + 1 + len(configs) + len(partitions) > RECORDS_PER_REQUEST_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The request would make more than {RECORDS_PER_REQUEST_MAX} records of metadata.",
            )
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ]
        self.records += partitions
        return self._created(topic.name, topic_id, configs, assignments)

    def _check_name(self, name: str) -> None:
        if name in self.image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if error := name_error(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        if can_collide(name) and (other := self._existing_names().get(unified(name))):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _existing_names(self) -> dict[str, str]:
        if self._unified_names is None:
            self._unified_names = {unified(name): name for name in self.image.topics if can_collide(name)}
        return self._unified_names

    def _checked_configs(self, topic: CreatableTopic) -> dict[str, str]:
        missing = [config.name for config in topic.configs if config.value is None]
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}"
            )
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        if configs:
            self.rules.configs.check(self.image, configs)
        return configs

    def _assignments(self, topic: CreatableTopic) -> tuple[list[list[int]], ErrorCode]:
        """The replicas of each partition, and the error if one of them has none that is active."""
        if topic.assignments:
            return self._manual_assignments(topic), ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        partitions = self.rules.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
        factor = self.rules.replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
        return place(self.image, partitions, factor, self.rules.random), ErrorCode.INVALID_REPLICATION_FACTOR

    def _manual_assignments(self, topic: CreatableTopic) -> list[list[int]]:
        for what, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
            if value != DEFAULT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        assignments: dict[int, list[int]] = {}
        factor: int | None = None
        for assignment in topic.assignments:
            if assignment.partition_index in assignments:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {assignment.partition_index}",
                )
            check_assignment(self.image, assignment.broker_ids, factor)
            factor = len(assignment.broker_ids)
            assignments[assignment.partition_index] = assignment.broker_ids
        if sorted(assignments) != list(range(len(assignments))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [assignments[index] for index in range(len(assignments))]

    def _created(
        self, name: str, topic_id: Uuid, configs: dict[str, str], assignments: list[list[int]]
    ) -> CreatableTopicResult:
        result = CreatableTopicResult(name=name, topic_id=topic_id, error_message=None)
        if not self.rules.may_describe_configs(name):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return result
        result.num_partitions = len(assignments)
        result.replication_factor = len(assignments[0])
        result.configs = self._effective_configs(configs)
        return result

    def _effective_configs(self, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
        """What the topic set, over what all topics have in common, which is looked up once for the whole request."""
        if self._default_configs is None:
            self._default_configs = self.rules.configs.effective(self.image, {})
        if not configs:
            return self._default_configs
        by_name = {default.name: default for default in self._default_configs}
        for name, value in configs.items():  # also one that nobody is shown who has not set it
            is_sensitive = name in by_name and by_name[name].is_sensitive
            by_name[name] = CreatableTopicConfigs(
                name=name,
                value=None if is_sensitive else value,
                config_source=TOPIC_CONFIG_SOURCE,
                is_sensitive=is_sensitive,
            )
        return [config for _, config in sorted(by_name.items())]
