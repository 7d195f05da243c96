"""Messages of errors: the words may be ours, but every number and name that Kafka's message tells is in ours too."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.wire.messages import alter_client_quotas as quotas
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.schema import Request, Struct
from barnabas.wire.shapes import fields_of

TOPIC, BROKER, GROUP = 2, 4, 32
# Kafka's own classes, lists of what it knows and its own levels are not looked for.
IGNORED = re.compile(r"org\.apache\.\S+|\[[^\]]{80,}\]|0-based|Local controller 1 only supports versions .*")
TOLD = re.compile(r"[\w.-]*[\d.][\w.-]*\w|\d")


def new_topic(name: str, partitions: int = 1, factor: int = 1, **rest: Any) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **rest)
    return CreateTopicsRequest(topics=[topic], timeout_ms=15_000)


def with_configs(name: str, **configs: str) -> CreateTopicsRequest:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return new_topic(name, configs=given)


def assigned(name: str, *replicas: list[int], start: int = 0) -> CreateTopicsRequest:
    listed = [CreatableReplicaAssignment(partition_index=start + i, broker_ids=ids) for i, ids in enumerate(replicas)]
    return new_topic(name, -1, -1, assignments=listed)


def partitions(name: str, count: int, *replicas: list[int]) -> CreatePartitionsRequest:
    listed = [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas] or None
    topic = CreatePartitionsTopic(name=name, count=count, assignments=listed)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=15_000)


def alter(kind: int, name: str, key: str, value: str | None, operation: int = 0) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=key, config_operation=operation, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])]
    )


def move(topic: str, index: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])


def quota(kind: str, name: str, key: str, value: float) -> quotas.AlterClientQuotasRequest:
    entity = [quotas.EntityData(entity_type=kind, entity_name=name)]
    return quotas.AlterClientQuotasRequest(
        entries=[quotas.EntryData(entity=entity, ops=[quotas.OpData(key=key, value=value)])]
    )


def feature(name: str, level: int, kind: int = 1) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(timeout_ms=15_000, feature_updates=[update])


def credential(**fields: Any) -> AlterUserScramCredentialsRequest:
    given = {"name": "anna", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"} | fields
    return AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(**given)])


QUESTIONS: dict[str, tuple[Request, int]] = {
    "topic exists": (new_topic("TOPIC"), 7),
    "topic collides": (new_topic("TO.PIC"), 7),
    "no slash": (new_topic("no/slash"), 7),
    "long name": (new_topic("x" * 250), 7),
    "replication factor": (new_topic("new", 1, 3), 7),
    "replication factor 0": (new_topic("new", 1, 0), 7),
    "partitions 0": (new_topic("new", 0), 7),
    "too many partitions": (new_topic("new", 100_000), 7),
    "unknown config": (with_configs("new", no_such_key="5"), 7),
    "bad config": (with_configs("new", retention_ms="soon"), 7),
    "config out of bounds": (with_configs("new", min_insync_replicas="0"), 7),
    "bad choice": (with_configs("new", cleanup_policy="burn"), 7),
    "lags": (with_configs("new", min_compaction_lag_ms="10", max_compaction_lag_ms="5"), 7),
    "assignment of an unknown broker": (assigned("new", [77]), 7),
    "assignment twice": (assigned("new", [1, 1]), 7),
    "assignment with a gap": (assigned("new", [1], start=3), 7),
    "no increase": (partitions("TOPIC", 3), 3),
    "a decrease": (partitions("TOPIC", 2), 3),
    "partitions of an unknown topic": (partitions("unknown-topic", 5), 3),
    "too few assignments": (partitions("TOPIC", 6, [1]), 3),
    "new assignment of an unknown broker": (partitions("TOPIC", 4, [88]), 3),
    "delete unknown topic": (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="unknown-topic")], timeout_ms=15_000),
        6,
    ),
    "alter unknown config": (alter(TOPIC, "TOPIC", "no.such.key", "5"), 1),
    "alter to a bad value": (alter(TOPIC, "TOPIC", "retention.ms", "soon"), 1),
    "alter an unknown topic": (alter(TOPIC, "unknown-topic", "retention.ms", "5"), 1),
    "append to no list": (alter(TOPIC, "TOPIC", "retention.ms", "5", 2), 1),
    "alter another broker": (alter(BROKER, "77", "log.retention.ms", "5"), 1),
    "alter what is read-only": (alter(BROKER, "1", "num.partitions", "5"), 1),
    "alter a group": (alter(GROUP, "g", "consumer.session.timeout.ms", "1"), 1),
    "reassign to an unknown broker": (move("TOPIC", 0, [66]), 0),
    "reassign what is unknown": (move("unknown-topic", 4, [1]), 0),
    "cancel no reassignment": (move("TOPIC", 0, None), 0),
    "elect for an unknown partition": (
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="TOPIC", partitions=[9])], timeout_ms=15_000),
        2,
    ),
    "unknown quota": (quota("user", "anna", "no_such_rate", 5.0), 1),
    "unknown entity": (quota("animal", "anna", "consumer_byte_rate", 5.0), 1),
    "negative quota": (quota("user", "anna", "consumer_byte_rate", -5.0), 1),
    "unknown feature": (feature("no.such.feature", 1), 2),
    "feature too high": (feature("metadata.version", 99), 2),
    "feature downgrade": (feature("transaction.version", 1), 2),
    "few iterations": (credential(iterations=1), 0),
    "many iterations": (credential(iterations=20_000_000), 0),
    "unknown mechanism": (credential(mechanism=9), 0),
    "no credential": (
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)]),
        0,
    ),
}


def named(value: Any, name: str) -> Any:
    """The request with the topic's name in place of TOPIC."""
    if isinstance(value, list):
        return [named(each, name) for each in value]
    if isinstance(value, Struct):
        return type(value)(**{each.name: named(getattr(value, each.name), name) for each in fields_of(type(value))})
    if value == "TO.PIC":
        return name.replace("_", ".")
    return name if value == "TOPIC" else value


def messages(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from messages(each)
    elif isinstance(value, Struct):
        for field in fields_of(type(value)):
            found = getattr(value, field.name)
            if field.name == "error_message" and found:
                yield found
            else:
                yield from messages(found)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, Struct):
        for field in fields_of(type(value)):
            yield from strings(getattr(value, field.name))
    elif isinstance(value, str) and len(value) > 1:
        yield value


@pytest.mark.parametrize("question", QUESTIONS)
def test_whatever_kafka_s_message_names_ours_names_too(both: Any, question: str) -> None:
    asked, version = QUESTIONS[question]
    topic = both.new_name("a_topic")
    for side in both.sides:
        side.create_topic(topic, 3)
    request = named(asked, topic)
    kafka, *ours = [" ".join(messages(side.ask(request, version))) for side in both.sides]
    both.note(f"{question}\n    {kafka}")
    wanted = [word.strip(".") for word in TOLD.findall(IGNORED.sub("", kafka))]
    wanted += [word for word in strings(request) if word in kafka]
    for text in ours:
        assert text or not kafka
        missing = [word for word in wanted if word not in text]
        assert not missing, f"{missing} are missing\nKafka: {kafka}\nours:  {text}"
