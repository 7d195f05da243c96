"""Clusters and brokers in v3."""

from __future__ import annotations

from typing import Any

from barnabas.client.metadata import BrokerNode, ClusterMetadata
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v3.resources import Place, Tree, collection, not_found, number, place_of
from barnabas.services.rest.v3.topics import replica_tree
from barnabas.web.calls import Call


async def list_clusters(proxy: Proxy, call: Call) -> Any:
    place = Place(proxy.base_url(call), await proxy.kafka.cluster_id())
    metadata = await proxy.kafka.ask(lambda cluster: cluster.metadata([]))
    return collection("KafkaCluster", f"{place.base}/v3/clusters", [_cluster(place, metadata)])


async def get_cluster(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    return _cluster(place, await proxy.kafka.ask(lambda cluster: cluster.metadata([])))


def _cluster(place: Place, metadata: ClusterMetadata) -> Tree:
    return place.resource(
        "KafkaCluster",
        place.url(),
        "",
        controller=place.related("brokers", metadata.controller_id),
        acls=place.related("acls"),
        brokers=place.related("brokers"),
        broker_configs=place.related("broker-configs"),
        consumer_groups=place.related("consumer-groups"),
        topics=place.related("topics"),
        partition_reassignments=place.related("topics", "-", "partitions", "-", "reassignment"),
    )


async def list_brokers(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    brokers = (await proxy.kafka.ask(lambda cluster: cluster.metadata([]))).brokers
    return collection("KafkaBroker", place.url("brokers"), [_broker(place, brokers[each]) for each in sorted(brokers)])


async def get_broker(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    brokers = (await proxy.kafka.ask(lambda cluster: cluster.metadata([]))).brokers
    found = brokers.get(number(call.parameters["broker"]))
    if found is None:
        raise not_found()
    return _broker(place, found)


def _broker(place: Place, broker: BrokerNode) -> Tree:
    return place.resource(
        "KafkaBroker",
        place.url("brokers", broker.id),
        f"broker={broker.id}",
        broker_id=broker.id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=place.related("brokers", broker.id, "configs"),
        partition_replicas=place.related("brokers", broker.id, "partition-replicas"),
    )


async def replicas_of_broker(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    broker = number(call.parameters["broker"])
    metadata = await proxy.kafka.ask(lambda cluster: cluster.metadata())
    if broker not in metadata.brokers:
        raise not_found()
    found = [
        replica_tree(place, name, index, broker, partition)
        for name, topic in sorted(metadata.topics.items())
        for index, partition in sorted(topic.partitions.items())
        if broker in partition.replicas
    ]
    return collection("KafkaReplica", place.url("brokers", broker, "partition-replicas"), found)
