"""Topics, partitions, replicas and reassignments in v3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.admin.acls import OPERATIONS
from barnabas.client.admin.reassignments import Ongoing, ongoing
from barnabas.client.admin.topics import create_partitions, create_topic, delete_topics
from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.metadata import NO_LEADER, PartitionMetadata, TopicMetadata
from barnabas.services.rest import errors
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v3.resources import (
    EMPTY_BODY,
    Place,
    Tree,
    collection,
    config_value,
    not_found,
    number,
    object_of,
    place_of,
)
from barnabas.web.app import Answer
from barnabas.web.calls import Call
from barnabas.wire.errors import ErrorCode

START, END = -2, -1
ALL_OFFSETS = "earliest_and_latest"
WHOLE = re.compile(r"-?[0-9]{1,10}\Z")
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


async def list_topics(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topics = (await proxy.kafka.ask(lambda cluster: cluster.metadata())).topics
    permitted: Mapping[str, list[str]] = {}
    if call.text("includeAuthorizedOperations").lower() == "true":
        permitted = await proxy.kafka.ask(lambda cluster: permitted_operations(cluster, topics))
    trees = [topic_tree(place, topics[name], permitted=permitted.get(name, ())) for name in sorted(topics)]
    return collection("KafkaTopic", place.url("topics"), trees)


async def get_topic(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic = await _topic(proxy, call.parameters["topic"])
    permitted: Mapping[str, list[str]] = {}
    if call.text("include_authorized_operations").lower() == "true":
        permitted = await proxy.kafka.ask(lambda cluster: permitted_operations(cluster, [topic.name]))
    return topic_tree(place, topic, permitted=permitted.get(topic.name, ()))


def permitted_operations(cluster: Cluster, names: Iterable[str]) -> dict[str, list[str]]:
    """By topic: what whom the proxy asks as may do with it."""
    from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    return {
        each.name: [name for bit, name in OPERATIONS.items() if each.topic_authorized_operations >> bit & 1]
        for each in cluster.ask(request).topics
        if each.name is not None and each.topic_authorized_operations >= 0
    }


async def new_topic(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    tree = await object_of(call, EMPTY_BODY)
    name = tree.get("topic_name")
    if not isinstance(name, str):
        raise errors.bad_request("topic_name is missing.")
    if not TOPIC_NAME.match(name) or name in (".", ".."):
        raise errors.invalid_payload("Invalid topic name.")
    order = _order(tree)
    if tree.get("validate_only") is True:
        await proxy.kafka.ask(lambda cluster: _validate(cluster, name, order))
        partitions = len(order["assignments"]) or order["partitions"] or 1
        factor = len(order["assignments"][0]) if order["assignments"] else order["replication_factor"] or 0
        tried = topic_tree(place, None, name, partitions, factor)
        return Answer(tried, 200, {"location": place.url("topics", name)})

    def create(cluster: Cluster) -> TopicMetadata:
        create_topic(cluster, name, **order)
        cluster.forget_leader(name)
        cluster.leader(name, 0)  # waits until the brokers know it
        return cluster.topic(name)

    made = await proxy.kafka.ask(create)
    return Answer(topic_tree(place, made), 201, {"location": place.url("topics", name)})


def _order(tree: Tree) -> dict[str, Any]:
    configs = tree.get("configs") or []
    if not isinstance(configs, list) or not all(isinstance(each, dict) and "name" in each for each in configs):
        raise errors.bad_request("configs is not a list of name and value.")
    assignments = tree.get("replicas_assignments") or {}
    try:
        listed = [[int(broker) for broker in assignments[str(at)]] for at in range(len(assignments))]
    except (KeyError, TypeError, ValueError):
        raise errors.bad_request("replicas_assignments does not name the replicas of partitions from 0 on.") from None
    return {
        "partitions": None if listed else _whole(tree, "partitions_count"),
        "replication_factor": None if listed else _whole(tree, "replication_factor"),
        "assignments": listed,
        "configs": {str(each["name"]): config_value(each) for each in configs},
    }


def _whole(tree: Tree, name: str) -> int | None:
    value = tree.get(name)
    if isinstance(value, str) and WHOLE.match(value):
        value = int(value)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 31):
        raise errors.bad_request(f"{name} is not a number.")
    return value


def _validate(cluster: Cluster, name: str, order: dict[str, Any]) -> None:
    create_topic(cluster, name, **order, validate_only=True)


async def delete_topic(proxy: Proxy, call: Call) -> Any:
    await place_of(proxy, call)
    name = call.parameters["topic"]
    await proxy.kafka.ask(lambda cluster: delete_topics(cluster, [name]))


async def update_topic(proxy: Proxy, call: Call) -> Any:
    """The number of partitions is what can be changed."""
    place = await place_of(proxy, call)
    name = call.parameters["topic"]
    count = _whole(await object_of(call, "Request body is empty. Partitions_count is required."), "partitions_count")
    if count is None:
        raise errors.bad_request("partitions_count is missing.")

    def change(cluster: Cluster) -> TopicMetadata:
        if not described(cluster, name).partitions:
            raise not_found()
        create_partitions(cluster, count, {name: None})
        cluster.forget_leader(name)
        cluster.leader(name, count - 1)
        return cluster.topic(name)

    return topic_tree(place, await proxy.kafka.ask(change))


async def list_partitions(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic = await _topic(proxy, call.parameters["topic"])
    found = [partition_tree(place, topic.name, index, topic.partitions[index]) for index in sorted(topic.partitions)]
    return collection("KafkaPartition", place.url("topics", topic.name, "partitions"), found)


async def get_partition(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic, index, partition = await _partition(proxy, call)
    return partition_tree(place, topic, index, partition)


async def partition_offsets(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    kind = call.text("offset_type", ALL_OFFSETS)
    if kind != ALL_OFFSETS:
        raise errors.bad_request(f"Bad Request: offset_type:{kind} is invalid")
    topic = (await _topic(proxy, call.parameters["topic"])).name
    index = number(call.parameters["partition"])

    def ask(cluster: Cluster) -> tuple[int, int]:
        name = (topic, index)
        if index not in cluster.topic(topic).partitions:
            raise errors.partition_not_found()
        return cluster.list_offsets({name: START})[name].offset, cluster.list_offsets({name: END})[name].offset

    start, end = await proxy.kafka.ask(ask)
    return place.resource(
        "KafkaPartitionWithOffsets",
        place.url("topics", topic, "partitions", index, "offset"),
        f"topic={topic}/partition={index}/offset_type={kind}",
        topic_name=topic,
        partition_id=index,
        earliest_offset=start,
        latest_offset=end,
    )


async def list_replicas(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic, index, partition = await _partition(proxy, call)
    found = [replica_tree(place, topic, index, broker, partition) for broker in partition.replicas]
    return collection("KafkaReplica", place.url("topics", topic, "partitions", index, "replicas"), found)


async def get_replica(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    topic, index, partition = await _partition(proxy, call)
    broker = number(call.parameters["broker"])
    if broker not in partition.replicas:
        raise not_found()
    return replica_tree(place, topic, index, broker, partition)


async def list_reassignments(proxy: Proxy, call: Call) -> Any:
    """Of all topics, or of one."""
    place = await place_of(proxy, call)
    topic = call.parameters.get("topic", "-")
    moving: Mapping[tuple[str, int], Ongoing] = await proxy.kafka.ask(ongoing)
    found = [
        _reassignment(place, *partition, moving[partition])
        for partition in sorted(moving)
        if topic in ("-", partition[0])
    ]
    return collection("KafkaReassignment", place.url("topics", topic, "partitions", "-", "reassignment"), found)


async def get_reassignment(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    partition = call.parameters["topic"], number(call.parameters["partition"])
    moving = (await proxy.kafka.ask(ongoing)).get(partition)
    if moving is None:
        raise not_found()
    return _reassignment(place, *partition, moving)


def described(cluster: Cluster, name: str) -> TopicMetadata:
    found = cluster.metadata([name]).topics.get(name)
    if found is None or found.error:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error, errors.HOSTED)
    return found


async def _topic(proxy: Proxy, name: str) -> TopicMetadata:
    return await proxy.kafka.ask(lambda cluster: described(cluster, name))


async def _partition(proxy: Proxy, call: Call) -> tuple[str, int, PartitionMetadata]:
    topic = await _topic(proxy, call.parameters["topic"])
    index = number(call.parameters["partition"])
    partition = topic.partitions.get(index)
    if partition is None:
        raise not_found()
    return topic.name, index, partition


def topic_tree(
    place: Place,
    topic: TopicMetadata | None,
    name: str = "",
    partitions: int = 0,
    replication_factor: int = 0,
    permitted: Iterable[str] = (),
) -> Tree:
    """Of a topic, or of one that was only tried."""
    if topic is not None:
        name, partitions = topic.name, len(topic.partitions)
        replication_factor = max((len(each.replicas) for each in topic.partitions.values()), default=0)
    return place.resource(
        "KafkaTopic",
        place.url("topics", name),
        f"topic={name}",
        topic_name=name,
        is_internal=topic is not None and topic.is_internal,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=place.related("topics", name, "partitions"),
        configs=place.related("topics", name, "configs"),
        partition_reassignments=place.related("topics", name, "partitions", "-", "reassignment"),
        authorized_operations=list(permitted),
    )


def partition_tree(place: Place, topic: str, index: int, partition: PartitionMetadata) -> Tree:
    path = ("topics", topic, "partitions", index)
    leader = None if partition.leader == NO_LEADER else place.related(*path, "replicas", partition.leader)
    return place.resource(
        "KafkaPartition",
        place.url(*path),
        f"topic={topic}/partition={index}",
        topic_name=topic,
        partition_id=index,
        leader=leader,
        replicas=place.related(*path, "replicas"),
        reassignment=place.related(*path, "reassignment"),
    )


def replica_tree(place: Place, topic: str, index: int, broker: int, partition: PartitionMetadata) -> Tree:
    return place.resource(
        "KafkaReplica",
        place.url("topics", topic, "partitions", index, "replicas", broker),
        f"topic={topic}/partition={index}/replica={broker}",
        topic_name=topic,
        partition_id=index,
        broker_id=broker,
        is_leader=broker == partition.leader,
        is_in_sync=broker in partition.isr,
        broker=place.related("brokers", broker),
    )


def _reassignment(place: Place, topic: str, index: int, moving: Ongoing) -> Tree:
    path = ("topics", topic, "partitions", index)
    return place.resource(
        "KafkaReassignment",
        place.url(*path, "reassignment"),
        f"topic={topic}/partition={index}/reassignment",
        topic_name=topic,
        partition_id=index,
        adding_replicas=moving.adding,
        removing_replicas=moving.removing,
        replicas=place.related(*path, "replicas"),
    )
